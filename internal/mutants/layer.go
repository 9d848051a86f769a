package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limit of one layer for one mutant. One that hangs is noticed.
const limit = 2 * time.Minute

// layer is one kind of test.
type layer struct {
	name  string
	pkg   string
	only  string // mutants of this directory; "" for all
	args  func(m *mutant) []string
	story *regexp.Regexp // what the output says about the effort
}

// layers in the order in which they are tried: the cheapest first.
func layers() []layer {
	rules := func(m *mutant) string { return "-sim.rules=" + strings.Join(m.rules, ",") }
	return []layer{
		{
			name: "simulation", pkg: "./internal/sim",
			args: func(m *mutant) []string {
				return []string{"-test.run=^TestSimulatedFaultsBreakNoProperty$", "-sim.workers=1", "-sim.enough=1", "-sim.seeds=30000", rules(m)}
			},
			story: regexp.MustCompile(`([AE]\d+ broken after \d+ seeds)`),
		},
		{
			name: "enumeration", pkg: "./internal/sim",
			args: func(m *mutant) []string {
				return []string{"-test.run=^TestSimulatedDeliveriesSurvive", "-sim.workers=1", "-sim.enough=1", "-sim.pairs=23", rules(m)}
			},
			story: regexp.MustCompile(`([AE]\d+ broken after \d+ cases)`),
		},
		{
			name: "suite", pkg: "./memstore", only: "memstore/",
			args: func(*mutant) []string {
				return []string{"-test.run=^TestTheBackendConforms$", "-test.parallel=4", "-test.failfast"}
			},
			story: regexp.MustCompile(`--- FAIL: TestTheBackendConforms/(?:claims_into_memory_of_the_caller/)?(\S+/\S+)`),
		},
	}
}

func layerNames() []string {
	var names []string
	for _, l := range layers() {
		names = append(names, l.name)
	}
	return names
}

// verdict of one layer.
type verdict struct {
	noticed bool
	skipped bool
	text    string
}

// result is what the layers said about a mutant.
type result struct {
	mutant   mutant
	verdicts []verdict
	err      error
}

func (r *result) noticed() int {
	n := 0
	for _, v := range r.verdicts {
		if v.noticed {
			n++
		}
	}
	return n
}

// examine builds a mutant and runs the layers.
func examine(ctx context.Context, m mutant, short bool) result {
	r := result{mutant: m}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		r.err = err
		return r
	}
	defer func() { r.err = errors.Join(r.err, os.RemoveAll(dir)) }()
	list, err := m.overlay(dir)
	if err != nil {
		r.err = err
		return r
	}
	for _, l := range layers() {
		if l.only != "" && !m.touches(l.only) || short && r.noticed() > 0 {
			r.verdicts = append(r.verdicts, verdict{skipped: true, text: "–"})
			continue
		}
		v, err := l.run(ctx, &m, dir, list)
		if err != nil {
			r.err = err
			return r
		}
		r.verdicts = append(r.verdicts, v)
	}
	return r
}

// run builds the layer's tests over the mutant, unless another layer has, and runs
// them.
func (l *layer) run(ctx context.Context, m *mutant, dir, list string) (verdict, error) {
	binary := filepath.Join(dir, strings.ReplaceAll(filepath.Base(l.pkg), "/", "_")+".test")
	if _, err := os.Stat(binary); err != nil {
		build := exec.CommandContext(ctx, "go", "test", "-overlay="+list, "-c", "-o", binary, l.pkg) //nolint:gosec // our own names
		if out, err := build.CombinedOutput(); err != nil {
			return verdict{}, fmt.Errorf("%s does not compile: %w\n%s", m.name, err, out)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(bounded, binary, append(l.args(m), "-test.timeout=0")...) //nolint:gosec // our own binary
	cmd.Dir = l.pkg
	out, err := cmd.CombinedOutput()
	switch found := l.story.FindSubmatch(out); {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case err == nil:
		return verdict{text: "survives"}, nil
	case bounded.Err() != nil:
		return verdict{noticed: true, text: "hangs"}, nil
	case found != nil:
		return verdict{noticed: true, text: string(found[1])}, nil
	}
	return verdict{noticed: true, text: "crashes"}, nil
}
