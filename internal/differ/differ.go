// Package differ plays random scripts over several backends and compares what
// they say: the layer L3 of the tests (docs/testing.md).
//
// A seed draws the options of the Stores and a script: calls of three processes
// on two keys, with crashes, takeovers, late calls, recoveries and operators in
// between. Each step leaves a line: what the call returned, and what is recorded
// afterwards, without what passes by itself and without the values of tokens. On
// every backend a script must leave the same lines.
package differ

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem/driver"
)

// Lines are what a script left, one for each step.
type Lines []string

// Play plays the script of a seed over b, which must not have seen it.
func Play(tb testing.TB, b driver.Backend, seed uint64) Lines {
	tb.Helper()
	w := newWorld(tb, b, seed)
	for range 12 + w.plan.rnd.IntN(8) {
		w.step(w.plan.draw())
	}
	return w.lines
}

// Difference describes where two scripts part; "" if they do not.
func Difference(want, got Lines) string {
	for i := range max(len(want), len(got)) {
		if i < len(want) && i < len(got) && want[i] == got[i] {
			continue
		}
		var b strings.Builder
		for _, line := range want[:min(i, len(want))] {
			fmt.Fprintln(&b, "  both:", line)
		}
		fmt.Fprintln(&b, "  one: ", at(want, i))
		fmt.Fprintln(&b, "  other:", at(got, i))
		return b.String()
	}
	return ""
}

func at(l Lines, i int) string {
	if i < len(l) {
		return l[i]
	}
	return "(nothing)"
}

// plan is everything that the seed decides.
type plan struct {
	rnd *rand.Rand
}

func newPlan(seed uint64) *plan {
	return &plan{rnd: rand.New(rand.NewPCG(seed, 3))} //nolint:gosec // a seed that replays is the point
}

func (p *plan) oneIn(n int) bool { return p.rnd.IntN(n) == 0 }

func pick[T any](p *plan, from ...T) T { return from[p.rnd.IntN(len(from))] }

// Steps, and ends of an operation.
const (
	execute = "execute"
	claim   = "claim"
	record  = "record"
	fail    = "fail"
	release = "release"
	renew   = "renew"
	saveRef = "save ref"
	lapse   = "lapse"
	resolve = "resolve"
	redact  = "redact"
	reset   = "reset"

	returns    = "returns"
	large      = "returns too much"
	permanent  = "permanent"
	unknown    = "unknown"
	notApplied = "not applied"
	plain      = "plain error"
	panics     = "panics"
)

// step is one call.
type step struct {
	kind     string
	process  int
	key      string
	end      string // of the operation
	refs     bool   // the operation saves a reference
	lapses   bool   // the lease ends while it runs
	stolen   bool   // and another process executes meanwhile
	request  string // the request's fingerprint; "" for none
	hold     bool
	recovery string // "" for none; else the verdict
	provider bool
	stale    bool // an operator has seen an old token
	old      int  // which of the claims made so far
}

func (p *plan) draw() step {
	kinds := []string{
		execute, execute, execute, execute, execute, execute, claim, claim, claim, record, record, fail, release, renew, saveRef,
		lapse, lapse, lapse, lapse, resolve, resolve, redact, reset,
	}
	return step{
		kind: pick(p, kinds...), process: p.rnd.IntN(3), key: pick(p, "a", "a", "b"),
		end:  pick(p, returns, returns, large, permanent, unknown, notApplied, plain, panics),
		refs: p.oneIn(3), lapses: p.oneIn(4), stolen: p.oneIn(2),
		request: pick(p, "", "", "x", "x", "x", "y"), hold: p.oneIn(3), recovery: pick(p, "", "", "", "", returns, permanent, notApplied, plain),
		provider: p.oneIn(3), stale: p.oneIn(5), old: p.rnd.IntN(8),
	}
}

// String names what matters of a step.
func (s step) String() string {
	parts := []string{fmt.Sprintf("process %d: %s %s", s.process, s.kind, s.key)}
	add := func(on bool, text string) {
		if on {
			parts = append(parts, text)
		}
	}
	calls := s.kind == execute || s.kind == claim
	add(s.kind == execute || s.kind == fail || s.kind == resolve, s.end)
	add(s.kind == execute && s.refs, "saves a reference")
	add(s.kind == execute && s.lapses, "the lease ends")
	add(s.kind == execute && s.lapses && s.stolen, "another executes")
	add(calls && s.request != "", "request "+s.request)
	add(calls && s.hold, "hold")
	add(calls && s.recovery != "", "recovery: "+s.recovery)
	add(calls && s.provider, "with a provider")
	add(s.stale && slices.Contains([]string{resolve, redact, reset}, s.kind), "old token")
	return strings.Join(parts, ", ")
}
