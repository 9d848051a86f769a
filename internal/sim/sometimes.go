package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/idem-go/idem"
)

// sight is something that a run must have come across, or its generator is
// blind: the "sometimes" of the test programme.
type sight uint8

const (
	s1Claim       sight = iota // S1: an old owner wakes after a takeover and tries each of its five calls
	s1Renew                    //
	s1Annotate                 //
	s1Complete                 //
	s1Release                  //
	s2                         // Complete accepted after the lease's end, before a takeover
	s3                         // the reply to a Claim was lost, then the claim recognised
	s4                         // the reply to a Complete was lost, then the outcome recognised
	s5                         // a renewal failed, and one after it succeeded
	s6                         // the end of the trust window cancelled an operation
	s7                         // ErrNotRecorded, later a replay of that outcome
	s8                         // unknown, under Hold
	s9Succeeded                // S9: each verdict of a recovery
	s9Failed                   //
	s9NotExecuted              //
	s9None                     //
	s10                        // Rerun acted as Hold: the provider's window was over
	s11                        // purge removed a record for which a claim was on its way
	s17Hint                    // S17: a waiter was woken by a hint, by its poll, by a call of its process
	s17Poll                    //
	s17Signal                  //
	s18Panic                   // S18
	s18Goexit                  //
	s18Nil                     //
	s19                        // a context ended between the send of a call and its reply
	// S21: each change of a record's state.
	tClaim       // none, claimed
	tSucceed     // claimed, succeeded
	tFail        // claimed, failed
	tRelease     // claimed, released
	tDoubt       // claimed, released in doubt
	tHold        // claimed, held
	tEnd         // claimed, unknown
	tAgain       // released, claimed
	tAgainDoubt  // released in doubt, claimed
	tTakeover    // unknown, claimed
	tRecover     // held, claimed by a recovery
	tResolve     // unknown or held, claimed by an operator
	tNotExecuted // claimed in doubt, claimed without
	tRedact      // completed, redacted
	tResetDone   // completed, released by an operator
	tResetOpen   // without an outcome, released by an operator
	tExpireDone  // completed, none
	tExpireFree  // released, none
	sights
)

// names of the sights, in their order.
func sightNames() []string {
	return []string{
		"S1 claim", "S1 renew", "S1 annotate", "S1 complete", "S1 release", "S2", "S3", "S4", "S5", "S6", "S7", "S8",
		"S9 succeeded", "S9 failed", "S9 not executed", "S9 no verdict", "S10", "S11", "S17 hint", "S17 poll", "S17 signal",
		"S18 panic", "S18 Goexit", "S18 nil", "S19",
		"none->claimed", "claimed->succeeded", "claimed->failed", "claimed->released", "claimed->released in doubt",
		"claimed->held", "claimed->unknown", "released->claimed", "released in doubt->claimed", "unknown->claimed",
		"held->claimed", "unknown->resolving", "doubt->not executed", "done->redacted", "done->reset", "open->reset",
		"done->none", "released->none",
	}
}

// sentinels of package idem.
func sentinels() []error {
	return []error{
		idem.ErrAlreadyDone, idem.ErrInProgress, idem.ErrFingerprintMismatch, idem.ErrOutcomeUnknown, idem.ErrLeaseLost,
		idem.ErrMaxRun, idem.ErrNotRecorded, idem.ErrNotEncoded, idem.ErrTooLarge, idem.ErrRedacted, idem.ErrUnavailable,
		idem.ErrRecordedFailure, idem.ErrNotDecoded, idem.ErrCorrupt, idem.ErrInvalidKey, idem.ErrInvalidOption,
		idem.ErrClosed, idem.ErrConflict, idem.ErrNotFound,
	}
}

// sentinelNames are their texts.
func sentinelNames() []string {
	var names []string
	for _, s := range sentinels() {
		names = append(names, s.Error())
	}
	return names
}

const (
	sentinelCount = 19
	eventCount    = int(idem.EventReset)
)

// Counters count what a run came across. Those of one world are guarded by its
// mutex.
type Counters struct {
	Seeds      int
	Steps      int
	Deliveries int
	Calls      int
	Sights     [sights]int
	Sentinels  [sentinelCount]int
	Events     [eventCount + 1]int
	Faults     [faults]int
	Judged     [rules]int // how often each property was judged
}

func (c *Counters) see(s sight) { c.Sights[s]++ }

// judged counts that a property was looked at.
func (c *Counters) judged(r rule) { c.Judged[r]++ }

// Add adds the counts of another run.
func (c *Counters) Add(o *Counters) {
	c.Seeds += o.Seeds
	c.Steps += o.Steps
	c.Deliveries += o.Deliveries
	c.Calls += o.Calls
	addAll(c.Sights[:], o.Sights[:])
	addAll(c.Sentinels[:], o.Sentinels[:])
	addAll(c.Events[:], o.Events[:])
	addAll(c.Faults[:], o.Faults[:])
	addAll(c.Judged[:], o.Judged[:])
}

func addAll(sum, add []int) {
	for i, n := range add {
		sum[i] += n
	}
}

// Missing lists what was never seen.
func (c *Counters) Missing() []string {
	var missing []string
	for i, name := range sightNames() {
		if c.Sights[i] == 0 {
			missing = append(missing, name)
		}
	}
	for i, name := range sentinelNames() {
		if c.Sentinels[i] == 0 {
			missing = append(missing, "error "+name)
		}
	}
	for k := idem.EventExecuted; int(k) <= eventCount; k++ {
		if c.Events[k] == 0 {
			missing = append(missing, "event "+k.String())
		}
	}
	for f := range faults {
		if c.Faults[f] == 0 {
			missing = append(missing, "fault "+f.String())
		}
	}
	for r := range rules {
		if c.Judged[r] == 0 {
			missing = append(missing, "judgement of "+r.String())
		}
	}
	return missing
}

// String lists all counts.
func (c *Counters) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d steps, %d deliveries, %d calls to the backend\n", c.Seeds, c.Steps, c.Deliveries, c.Calls)
	line := func(title string, names []string, counts []int) {
		parts := make([]string, len(names))
		for i, n := range names {
			parts[i] = fmt.Sprintf("%s %d", n, counts[i])
		}
		fmt.Fprintf(&b, "%s: %s\n", title, strings.Join(parts, ", "))
	}
	line("sometimes", sightNames(), c.Sights[:])
	line("errors", sentinelNames(), c.Sentinels[:])
	var kinds []string
	for k := idem.EventExecuted; int(k) <= eventCount; k++ {
		kinds = append(kinds, k.String())
	}
	line("events", kinds, c.Events[1:])
	line("faults", stringsOf(faults), c.Faults[:])
	line("judged", stringsOf(rules), c.Judged[:])
	return b.String()
}

func stringsOf[T interface {
	~uint8
	fmt.Stringer
}](n T,
) []string {
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, i.String())
	}
	return slices.Clip(all)
}
