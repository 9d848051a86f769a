package sim

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"testing/synctest"
)

// Result is what one seed came to.
type Result struct {
	Seed       uint64
	Violations []Violation
	Trace      []string // of a run that traces
	Hash       uint64   // of the trace
	Plan       string
}

// Violation is one broken property.
type Violation struct {
	Rule string // A1 to A13, E1 to E3
	Text string
}

// Run simulates one seed in a bubble of its own, and adds to count what it came
// across. The same seed does the same every time; tracing shows what, and costs
// time.
func Run(t *testing.T, seed uint64, count *Counters, tracing bool) Result {
	t.Helper()
	var res Result
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t.Context(), drawPlan(seed), count, tracing)
		defer w.mu.Unlock()
		w.simulate()
		res = w.result()
	})
	return res
}

// simulate plays the plan of a seed from the beginning to the end.
func (w *world) simulate() {
	w.count.Seeds++
	w.play()
	if !w.broken() {
		w.finish()
	}
	w.abort()
}

func (w *world) result() Result {
	res := Result{Seed: w.plan.seed, Violations: w.violations, Trace: w.trace, Plan: w.plan.String()}
	if w.tracing {
		h := fnv.New64a()
		_, _ = h.Write([]byte(strings.Join(w.trace, "\n"))) // it never fails
		res.Hash = h.Sum64()
	}
	return res
}

// Report is everything to look at after a failure.
func (r *Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", r.Seed)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "%s: %s\n", v.Rule, v.Text)
	}
	fmt.Fprintf(&b, "plan: %s\n%s\n", r.Plan, strings.Join(r.Trace, "\n"))
	return b.String()
}
