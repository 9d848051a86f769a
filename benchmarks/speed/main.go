// Command speed measures package backoff and other libraries at the same work,
// in one run, and prints how many times longer each of them takes:
//
//	cd benchmarks && GOWORK=off go run ./speed
//
// The libraries take turns, several rounds of them, and the fastest round of each
// counts: so whatever else the machine does falls on all of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"text/tabwriter"

	"github.com/idem-go/idem/benchmarks/retry"
)

// figures are the best of the rounds.
type figures struct {
	nanos  float64
	bytes  int64
	allocs int64
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 7, "how often each library has its turn")
	if err := flag.Set("test.benchtime", "100ms"); err != nil {
		panic(err)
	}
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, rounds int) error {
	works, err := retry.Works(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s %s/%s, best of %d rounds\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, rounds); err != nil {
		return err
	}
	for _, w := range works {
		if err := report(out, w, measure(w.Subjects, rounds)); err != nil {
			return err
		}
	}
	return nil
}

func measure(subjects []retry.Subject, rounds int) []figures {
	best := make([]figures, len(subjects))
	for round := range rounds {
		for i, s := range subjects {
			r := testing.Benchmark(s.Run)
			nanos := float64(r.T.Nanoseconds()) / float64(r.N)
			if round == 0 || nanos < best[i].nanos {
				best[i] = figures{nanos, r.AllocedBytesPerOp(), r.AllocsPerOp()}
			}
		}
	}
	return best
}

func report(out io.Writer, work retry.Work, best []figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := fmt.Fprintf(w, "\n%s\t ns\t B\t allocs\t ratio\t\n", work.Title); err != nil {
		return err
	}
	for i, f := range best {
		if _, err := fmt.Fprintf(w, "%s\t%.1f\t%d\t%d\t%.2f\t\n", work.Subjects[i].Name, f.nanos, f.bytes, f.allocs, f.nanos/best[0].nanos); err != nil {
			return err
		}
	}
	return w.Flush()
}
