// Command speed measures package backoff and other libraries at the same work,
// in one run, and prints how many times longer each of them takes:
//
//	cd benchmarks && GOWORK=off go run ./speed
//
// The libraries take turns, in many short rounds, and each round begins with
// another of them: so whatever else the machine does falls on all of them. Of the
// turns of each it prints the median and the best; on a machine that is busy the
// best is the figure to trust.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/idem-go/idem/benchmarks/retry"
)

// figures are what one library's turns took.
type figures struct {
	nanos  []float64 // sorted once all are there
	bytes  int64
	allocs int64
}

func (f figures) best() float64   { return f.nanos[0] }
func (f figures) median() float64 { return f.nanos[len(f.nanos)/2] }

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 41, "how often each library has its turn")
	if err := flag.Set("test.benchtime", "10ms"); err != nil {
		panic(err)
	}
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, rounds int) error {
	if rounds < 1 {
		return fmt.Errorf("rounds is %d", rounds)
	}
	works, err := retry.Works(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s %s/%s, %d rounds\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, rounds); err != nil {
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
	all := make([]figures, len(subjects))
	for round := range rounds {
		for turn := range subjects {
			i := (round + turn) % len(subjects)
			r := testing.Benchmark(subjects[i].Run)
			all[i].nanos = append(all[i].nanos, float64(r.T.Nanoseconds())/float64(r.N))
			all[i].bytes, all[i].allocs = r.AllocedBytesPerOp(), r.AllocsPerOp()
		}
	}
	for _, f := range all {
		slices.Sort(f.nanos)
	}
	return all
}

func report(out io.Writer, work retry.Work, all []figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := fmt.Fprintf(w, "\n%s\t median ns\t best ns\t B\t allocs\t ratio of medians\t of bests\t\n", work.Title); err != nil {
		return err
	}
	idem := all[0]
	for i, f := range all {
		if _, err := fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%d\t%d\t%.2f\t%.2f\t\n", work.Subjects[i].Name,
			f.median(), f.best(), f.bytes, f.allocs, f.median()/idem.median(), f.best()/idem.best()); err != nil {
			return err
		}
	}
	return w.Flush()
}
