package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
)

// Case is one case of the fault enumeration: a key in some state, a delivery with some
// policy whose calls to the backend meet one fault or two at chosen places, and
// the delivery that comes next. Everything else goes well. The properties are
// judged after every step, as in a seeded run.
type Case struct {
	State  State
	Policy Policy
	End    End
	Next   Next
	Faults []Placed
}

// Placed is a fault of the delivery's nth call to the backend, counted from 1.
type Placed struct {
	Call  int
	Fault Fault
}

// State of the key before the delivery.
type State uint8

// States of a key.
const (
	Absent State = iota
	Claimed
	Succeeded
	Tombstone // succeeded, and the value was too large to keep
	Failed
	Released
	ReleasedInDoubt
	Unknown
	HeldUnknown
	States
)

// Policy of the delivery.
type Policy uint8

// Policies of a delivery.
const (
	Rerun Policy = iota
	Hold
	Recover
	Windowed // rerun, within the provider's window
	FailOpen // rerun, and without a claim if the store is unavailable
	Policies
)

// End of the delivery's operation.
type End uint8

// Ends of an operation.
const (
	Succeeds End = iota
	Fails        // after its effect
	Overruns     // MaxRun, before its effect
	Panics       // after its effect
	Ends
)

// Next is the delivery that comes after it.
type Next uint8

// Deliveries that come next.
const (
	SameAgain Next = iota
	NewProcess
	Waiter     // in the same process, while the operation runs
	OtherInput // after it
	OtherAlong // of another input, in the same process, while the operation runs
	Nexts
)

// Fault is what happens to a call.
type Fault uint8

// Faults of a call.
const (
	NotApplied Fault = iota
	ReplyLost
	ReplyAfterLease
	Twice
	SentAfterLease
	NeverAnswered
	ContextEndsBefore
	ContextEndsDuring
	ContextEndsAfter
	OddError
	OldCallAgain
	LastCallAgain // a copy of the call before it
	Refused
	Unreadable
	Garbled
	Faults
)

func (c *Case) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, the operation %s, next %s",
		[States]string{"absent", "claimed", "succeeded", "a tombstone", "failed", "released", "released in doubt", "unknown", "held"}[c.State],
		[Policies]string{"rerun", "hold", "recover", "rerun in a window", "rerun, fail open"}[c.Policy],
		[Ends]string{"succeeds", "fails", "overruns", "panics"}[c.End],
		[Nexts]string{"the same", "a new process", "a waiter", "another input", "another input at once"}[c.Next])
	for _, f := range c.Faults {
		fmt.Fprintf(&b, ", call %d: %s", f.Call, f.Fault)
	}
	return b.String()
}

func (f Fault) String() string {
	return [Faults]string{
		"not applied", "reply lost", "reply after the lease", "twice", "sent after the lease", "never answered",
		"context ends before", "context ends during", "context ends after", "odd error", "an old call again", "the last call again", "refused",
		"unreadable", "garbled",
	}[f]
}

// Enumerated is what a case came to.
type Enumerated struct {
	Reached    bool // all its faults happened
	Calls      int  // that the delivery made
	Violations []Violation
	Trace      []string
}

// Report is everything to look at after a failure.
func (e *Enumerated) Report(c Case) string {
	lines := []string{c.String()}
	for _, v := range e.Violations {
		lines = append(lines, v.Rule+": "+v.Text)
	}
	return strings.Join(append(lines, e.Trace...), "\n")
}

// Enumerate runs one case in a bubble of its own.
func Enumerate(t *testing.T, c Case, count *Counters, tracing bool) Enumerated {
	t.Helper()
	var res Enumerated
	synctest.Test(t, func(t *testing.T) {
		r := &rehearsal{c: c, world: newWorld(t.Context(), c.plan(), count, tracing)}
		defer r.mu.Unlock()
		r.play()
		res = Enumerated{r.fired == len(c.Faults), r.calls, r.violations, r.trace}
	})
	return res
}

const (
	caseLease = 2400 * time.Millisecond
	caseRenew = caseLease / 3
	caseRun   = 3 * caseLease
	// caseWindow leaves less than caseRun once a lease has passed.
	caseWindow = caseRun + caseLease + 19*time.Microsecond
)

// plan of a case: no rates, and time-outs longer than the lease, so that replies
// can come after it.
func (c *Case) plan() plan {
	opts := storePlan{opts: idem.Options{
		Namespace: "sim", Lease: caseLease, RenewEvery: caseRenew, MaxRun: caseRun, RetryWindow: time.Millisecond,
		Retention: time.Hour, StoreTimeout: 10*time.Second + 7*time.Microsecond, RecordTimeout: 12*time.Second + 11*time.Microsecond, MaxValue: 128,
	}}
	opts.opts.FailOpen = c.Policy != Rerun && c.Policy != Windowed // under Hold it must not matter
	k := keyPlan{family: [Policies]family{dedup, strict, strict, windowed, dedup}[c.Policy], window: caseWindow}
	return plan{
		seed: 1, deliveries: 10, processes: 2, namespace: "sim", options: []storePlan{opts},
		keys: []keyPlan{k},
	}
}

// rehearsal is the scheduler of a case.
type rehearsal struct {
	*world
	c      Case
	first  *exec
	next   *exec
	calls  int // of the first delivery
	fired  int // faults that happened
	held   *item
	word   word // for the held item, once the lease is over
	until  time.Time
	waited bool // for the renewal
}

func (r *rehearsal) play() {
	r.prepare()
	if !r.broken() {
		r.first = r.start1(r.keys[0], r.procs[0], r.script(sameRequest))
		r.rehearse()
	}
	if !r.broken() {
		r.judgeWaiter()
		r.otherInput()
	}
	if !r.broken() {
		r.finish()
	}
	r.abort()
}

// otherInput is a delivery of another request, after everything: whatever the
// record has come to, it stays as it is, if it stands for a request.
func (r *rehearsal) otherInput() {
	s := r.script(otherRequest)
	s.op = opScript{charge: chargeDeclined}
	r.start1(r.keys[0], r.fresh(), s)
	r.calmly(r.allReturned)
}

// judgeWaiter: who waits gets the outcome soon after it is recorded, by a call of
// its process, by a hint or by its poll.
func (r *rehearsal) judgeWaiter() {
	if r.c.Next == Waiter {
		r.judgeWaited(r.next, r.start)
	}
}

// script of the first delivery, and of the next.
func (r *rehearsal) script(p request) script {
	s := script{kind: kExecute, request: p, hold: r.c.Policy == Hold, recover: r.c.Policy == Recover, provider: r.c.Policy == Windowed, verdict: 0.9, zeros: true}
	s.op = opScript{notes: true, fails: r.c.End == Fails, end: 0.5}
	if r.c.End == Panics {
		s.op.crash = 1
	}
	return s
}

// prepare brings the key into its state, by a delivery at another process.
func (r *rehearsal) prepare() {
	s := script{kind: kExecute, request: sameRequest, provider: r.c.Policy == Windowed}
	k, p := r.keys[0], r.procs[1]
	switch r.c.State {
	case Absent, States:
		return
	case Claimed:
		s.kind, s.op = kSteps, opScript{pauses: 100}
		r.start1(k, p, s)
		r.calmly(func() bool { return k.model.phase == claimed })
		return
	case Succeeded:
	case Tombstone:
		s.op = opScript{large: true}
	case Failed:
		s.op = opScript{charge: chargeNone, end: 0.99}
	case Released:
		s.op = opScript{charge: chargeDeclined}
	case ReleasedInDoubt:
		s.op = opScript{charge: chargeLost, end: 0.5}
	case HeldUnknown:
		s.op = opScript{charge: chargeLost}
	case Unknown:
		s.op = opScript{pauses: 1, after: 1}
		r.start1(k, p, s)
		r.calmly(func() bool { return len(r.ledger.effects) == 1 })
		r.kill(p)
		r.rest(2 * caseLease)
		return
	}
	r.start1(k, p, s)
	r.calmly(r.allReturned)
}

// calmly answers everything without a fault until done.
func (r *rehearsal) calmly(done func() bool) {
	for !done() && !r.broken() {
		r.nudge()
		if len(r.parked) == 0 {
			r.sleep(time.Second)
			r.settle()
			continue
		}
		r.meetCalm(r.parked[0])
	}
}

// rest lets d pass, and answers what comes without a fault; parked steps of
// operations stay parked.
func (w *world) rest(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until) && !w.broken(); {
		w.sleep(time.Until(until))
		w.settle()
		for _, it := range w.parked {
			if it.call != nil {
				w.meetCalm(it)
				break
			}
		}
	}
}
