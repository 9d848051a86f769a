// Command simulate prints what waiting costs with each kind of jitter, in the
// model of package contention, and draws it:
//
//	go run ./backoff/simulate
//
// prints the table and writes docs/jitter.svg. The drawing is done by the nested
// module backoff/simulate/plot, which the command runs with "go run": the root
// module keeps clear of plotting libraries that way. The same seed gives the same
// table and the same file.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/idem-go/idem/backoff/internal/contention"
)

// series is the input of the plot: for each number of clients a time in
// milliseconds, and a number of calls.
type series struct {
	Name    string    `json:"name"`
	Clients []int     `json:"clients"`
	Millis  []float64 `json:"millis"`
	Calls   []float64 `json:"calls"`
}

func main() {
	seed := flag.Uint64("seed", 2015, "seed of the random numbers")
	repetitions := flag.Int("repetitions", 100, "runs to average over, for each cell")
	file := flag.String("plot", "docs/jitter.svg", "file for the plot; empty for none")
	flag.Parse()
	ctx := context.Background()
	if err := run(ctx, os.Stdout, *seed, *repetitions, *file); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, seed uint64, repetitions int, file string) error {
	all := simulate(seed, repetitions)
	if err := printTable(out, all, []int{10, 20, 30, 40, 50, 100, 200}); err != nil {
		return err
	}
	if file == "" {
		return nil
	}
	return draw(ctx, out, all, file)
}

// simulate fills every cell, as many at a time as there are processors.
func simulate(seed uint64, repetitions int) []series {
	var wg sync.WaitGroup
	all := []series{}
	for i, s := range contention.Strategies() {
		line := series{Name: s.Name}
		for clients := 10; clients <= 200; clients += 10 {
			line.Clients = append(line.Clients, clients)
		}
		line.Millis, line.Calls = make([]float64, len(line.Clients)), make([]float64, len(line.Clients))
		for j, clients := range line.Clients {
			rng := rand.New(rand.NewPCG(seed, uint64(1000*i+clients)))
			wg.Go(func() {
				cost := contention.Average(s, clients, repetitions, rng)
				line.Millis[j], line.Calls[j] = cost.Millis, cost.Calls
			})
		}
		all = append(all, line)
	}
	wg.Wait()
	return all
}

// printTable prints "time in ms / calls" for some numbers of clients.
func printTable(out io.Writer, all []series, clients []int) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	head := []string{"clients"}
	for _, s := range all {
		head = append(head, s.Name)
	}
	rows := [][]string{head}
	for _, n := range clients {
		row := []string{fmt.Sprint(n)}
		for _, s := range all {
			i := slices.Index(s.Clients, n)
			row = append(row, fmt.Sprintf("%.0f / %.0f", s.Millis[i], s.Calls[i]))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")+"\t"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "time until every client has committed, in ms / calls")
	return err
}

// draw has the nested module draw the plot.
func draw(ctx context.Context, out io.Writer, all []series, file string) error {
	dir, err := plotModule(ctx)
	if err != nil {
		return err
	}
	input, err := json.Marshal(all)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".", path) //nolint:gosec // the user names the file
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = dir, append(os.Environ(), "GOWORK=off"), bytes.NewReader(input), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("drawing the plot in %s: %w", dir, err)
	}
	_, err = fmt.Fprintln(out, "plot:", file)
	return err
}

// plotModule finds the nested module. It is beside this command in a clone, and
// missing where the command was downloaded as a part of the root module.
func plotModule(ctx context.Context) (string, error) {
	const pkg = "github.com/idem-go/idem/backoff/simulate"
	found, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg).Output()
	dir := filepath.Join(strings.TrimSpace(string(found)), "plot")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
	}
	if err != nil {
		return "", errors.New("the plot needs a clone of the repository: run it there, or pass -plot=")
	}
	return dir, nil
}
