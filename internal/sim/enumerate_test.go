package sim_test

import (
	"testing"

	"github.com/idem-go/idem/internal/sim"
)

// place is the highest number of a call at which faults are placed.
const places = 6

// cases lists every case with one fault, and then every case with two.
func cases(yield func(sim.Case) bool) {
	for _, faults := range append(singles(), pairs()...) {
		for state := range sim.States {
			for policy := range sim.Policies {
				for next := range sim.Nexts {
					for _, fails := range []bool{false, true} {
						if !yield(sim.Case{State: state, Policy: policy, Next: next, Fails: fails, Faults: faults}) {
							return
						}
					}
				}
			}
		}
	}
}

func singles() [][]sim.Placed {
	var all [][]sim.Placed
	for call := 1; call <= places; call++ {
		for f := range sim.Faults {
			all = append(all, []sim.Placed{{Call: call, Fault: f}})
		}
	}
	return all
}

func pairs() [][]sim.Placed {
	var all [][]sim.Placed
	for _, a := range singles() {
		for _, b := range singles() {
			if a[0].Call < b[0].Call {
				all = append(all, []sim.Placed{a[0], b[0]})
			}
		}
	}
	return all
}

func TestX(t *testing.T) {
	n, reached, bad, pairs := 0, 0, 0, 0
	var c sim.Counters
	cases(func(cs sim.Case) bool {
		n++
		if len(cs.Faults) == 2 && n%37 != 0 {
			return true
		}
		e := sim.Enumerate(t, cs, &c, false)
		if e.Reached {
			reached++
			if len(cs.Faults) == 2 {
				pairs++
			}
		}
		if len(e.Violations) > 0 {
			bad++
			if bad < 10 {
				e := sim.Enumerate(t, cs, &c, true)
				t.Log(cs.String(), e.Violations)
				if bad < 3 {
					for _, l := range e.Trace {
						t.Log(l)
					}
				}
			}
		}
		return true
	})
	t.Log(n, reached, pairs, bad, c.String())
}
