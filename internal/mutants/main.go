// Mutants breaks idem on purpose, in each of the ways that patches lists, and
// shows which layers of tests notice: a test that cannot fail proves nothing.
//
//	go run ./internal/mutants          every layer for every mutant; two must notice
//	go run ./internal/mutants -short   the first that notices is enough
//	go run ./internal/mutants -run purge
//
// A patch says in its first line what is broken, and in its second, after
// "rules:", which properties that breaks: a layer that fails for another reason
// has not noticed. The work tree is never touched: the broken files are laid over
// it by the compiler.
//
// The layers are the conformance suite of package storetest (of mutants of
// memstore), the enumeration of faults, and the seeded simulation. Not in the
// list: "cached before completed", for which tieredstore is needed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	short := flag.Bool("short", false, "stop at the first layer that notices a mutant")
	only := flag.String("run", "", "only mutants whose name contains this")
	dir := flag.String("patches", filepath.Join("internal", "mutants", "patches"), "where the patches are")
	workers := flag.Int("workers", runtime.NumCPU(), "how many mutants at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *dir, *only, *short, *workers)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run breaks the code in every way, and prints the table.
func run(ctx context.Context, dir, only string, short bool, workers int) error {
	mutants, err := read(dir, only)
	if err != nil {
		return err
	}
	began := time.Now()
	results := make([]result, len(mutants))
	slots := make(chan struct{}, workers)
	var wg sync.WaitGroup
	for i, m := range mutants {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = examine(ctx, m, short)
		})
	}
	wg.Wait()
	return table(results, short, time.Since(began))
}

// table prints what noticed what, and returns an error if that is too little.
func table(results []result, short bool, took time.Duration) error {
	enough := 2
	if short {
		enough = 1
	}
	lines := []string{"mutant\trules\t" + strings.Join(layerNames(), "\t")}
	var missed []string
	for _, r := range results {
		cells := []string{r.mutant.name, strings.Join(r.mutant.rules, " ")}
		for _, v := range r.verdicts {
			cells = append(cells, v.text)
		}
		lines = append(lines, strings.Join(cells, "\t"))
		switch {
		case r.err != nil:
			missed = append(missed, fmt.Sprintf("%s: %v", r.mutant.name, r.err))
		case r.noticed() < enough:
			missed = append(missed, fmt.Sprintf("%s: noticed by %d, not %d layers", r.mutant.name, r.noticed(), enough))
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err := out.Write([]byte(strings.Join(lines, "\n") + "\n"))
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	fmt.Printf("%d mutants in %v\n", len(results), took.Round(time.Second))
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d survive:\n%s", len(missed), len(results), strings.Join(missed, "\n"))
	}
	return nil
}
