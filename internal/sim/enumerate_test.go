package sim_test

import (
	"cmp"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/sim"
)

var everyPair = flag.Int("sim.pairs", 7, "run every nth pair of faults; 1 runs them all") //nolint:gochecknoglobals // a flag of the test binary

// enumeration is what the cases came to.
type enumeration struct {
	Counters       sim.Counters
	Singles, Pairs int
	Cases          int // also those whose faults were not reached
	Failing        []sim.Case
	Rule           string // that the first of them broke
}

// Each call of a delivery to its backend meets each fault, in each state of the
// key, under each policy, whatever comes next; and with each fault, each call after
// it each other fault.
func TestSimulatedDeliveriesSurviveEverySingleAndDoubleFault(t *testing.T) { //nolint:paralleltest // it uses every processor
	results := share(t, func(t *testing.T, i, n int, e *enumeration) { e.run(t, i, n) })
	var sum enumeration
	for _, r := range results {
		sum.Counters.Add(&r.Counters)
		sum.Singles += r.Singles
		sum.Pairs += r.Pairs
		sum.Cases += r.Cases
		sum.Rule = cmp.Or(sum.Rule, r.Rule)
		sum.Failing = append(sum.Failing, r.Failing...)
	}
	if len(sum.Failing) > 0 {
		t.Errorf("%s broken after %d cases", sum.Rule, sum.Cases)
	}
	for _, c := range sum.Failing {
		e := sim.Enumerate(t, c, &sim.Counters{}, true)
		t.Error(e.Report(c))
	}
	t.Logf("%d single faults, %d pairs (every %d.); %v", sum.Singles, sum.Pairs, *everyPair, &sum.Counters)
	if len(sum.Failing) == 0 {
		require.Greater(t, sum.Singles, 3000, "too few cases were reached")
	}
}

// run enumerates the cases of one share: call by call, until one is not reached.
func (e *enumeration) run(t *testing.T, i, n int) {
	t.Helper()
	k := 0
	for c := range situations {
		if k++; k%n != i {
			continue
		}
		if len(e.Failing) >= budget.enough {
			return
		}
		for call, reached := 1, true; reached && call < mostCalls; call++ {
			reached = false
			for f := range sim.Faults {
				reached = e.single(t, c, sim.Placed{Call: call, Fault: f}) || reached
			}
		}
	}
}

// mostCalls is more than any delivery makes with one fault.
const mostCalls = 9

// single runs a case with one fault, and the cases that add a second one to it.
func (e *enumeration) single(t *testing.T, c sim.Case, a sim.Placed) bool {
	t.Helper()
	c.Faults = []sim.Placed{a}
	first := e.one(t, c)
	if !first.Reached {
		return false
	}
	e.Singles++
	if !paired(c) || len(e.Failing) >= budget.enough {
		return true
	}
	for call := a.Call + 1; call <= first.Calls; call++ {
		for f := range sim.Faults {
			e.Pairs++
			if e.Pairs%*everyPair != 0 {
				continue
			}
			c.Faults = []sim.Placed{a, {Call: call, Fault: f}}
			e.one(t, c)
		}
	}
	return true
}

func (e *enumeration) one(t *testing.T, c sim.Case) sim.Enumerated {
	t.Helper()
	r := sim.Enumerate(t, c, &e.Counters, false)
	e.Cases++
	if counts(r.Violations) && len(e.Failing) < budget.enough {
		e.Failing = append(e.Failing, c)
		e.Rule = cmp.Or(e.Rule, r.Violations[0].Rule)
	}
	return r
}

// situations are the cases without their faults. What comes at once needs an
// operation that runs, and the rare ends are looked at with the plainer ones of
// what comes next.
func situations(yield func(sim.Case) bool) {
	for state := range sim.States {
		for policy := range sim.Policies {
			for end := range sim.Ends {
				for next := range sim.Nexts {
					if end > sim.Fails && next > sim.NewProcess {
						continue
					}
					if !yield(sim.Case{State: state, Policy: policy, End: end, Next: next}) {
						return
					}
				}
			}
		}
	}
}

// paired are the situations in which a second fault is added.
func paired(c sim.Case) bool {
	return c.Next <= sim.Waiter && c.End <= sim.Fails && c.Policy <= sim.Recover && c.State != sim.Tombstone
}
