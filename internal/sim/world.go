package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// world is one run: some processes (Stores) over one memstore, a provider, and
// the scheduler, which is the goroutine that made the world. All of them are in
// one bubble.
//
// At any time all goroutines but the scheduler's are blocked: in an item, in one
// of the engine's own waits, or for ever. The scheduler takes one step (a word to
// one item, some time, something done to a process), waits until all are blocked
// again, and judges. What happens is so decided by its choices alone.
type world struct {
	plan  plan
	dice  dice
	base  context.Context //nolint:containedctx // of the bubble
	start time.Time
	b     *memstore.Backend
	procs []*proc
	keys  []*key
	execs []*exec
	count *Counters
	// sentinels are those of package idem, in the order of the Counters.
	sentinels []error

	// Of the scheduler's goroutine alone.
	parked  []*item
	older   []*call // every call that was ever parked, for late copies
	timer   *time.Timer
	steps   int
	calm    bool      // no faults any more
	calmed  time.Time // since when
	asleep  bool      // time passes
	last    *proc     // of the second phase
	nudging bool      // the clock is moved to the next step's instant
	tracing bool
	trace   []string

	wake chan struct{} // capacity 1: there is news before the time has passed

	// mu guards what follows, and what execs, runs and the ledger hold. The
	// scheduler holds it all the time, except while the others run: in settle, in
	// sleep, and when it sends a call itself.
	mu         sync.Mutex
	arrived    []*item
	sendings   []sending
	begun      []*run
	recoveries []*exec
	watchers   []*watcher
	observed   []observed
	asides     []aside
	returned   []*exec
	news       []string // lines for the trace, in no order
	ledger     ledger
	violations []Violation
}

// sending is one call as it was applied to the backend.
type sending struct {
	call  *call
	e     *exec
	reply reply
	at    time.Time
	late  bool // a copy that the network delivered late
}

// proc is a process: a Store, and the backend as it reaches it.
type proc struct {
	n      int
	w      *world
	plan   storePlan
	store  *idem.Store
	dead   bool // guarded by world.mu
	closed time.Time
	// stopped: Close has returned.
	stopped bool
}

func (p *proc) lease() time.Duration { return orDefault(p.plan.opts.Lease, 30*time.Second) }

// keyOf finds a key by the name that the backend knows it by.
func (w *world) keyOf(stored string) *key {
	for _, k := range w.keys {
		if k.stored == stored {
			return k
		}
	}
	return nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// key is one key of the namespace and all that is known about it.
type key struct {
	n      int
	plan   keyPlan
	name   string
	stored string
	model  model
	// request is the one that the record stands for, when it has a fingerprint.
	request request
	// epoch counts how often the key was new again: after a reset, and after the
	// end of its retention.
	epoch int
	// outcomes of the record, of all epochs, in order.
	outcomes []*recorded
	// touched is what the call that was applied last would break by a wrong
	// answer, refused the last call that must not have changed the record.
	touched rule
	refused method
	// ended: the lease of the last claim has ended.
	ended bool
	// granted are the owners that have had the key.
	granted map[driver.Owner]bool
	// vanished: the record's retention has ended, and no purge has come.
	vanished bool
}

// recorded is an outcome that the backend took.
type recorded struct {
	outcome  driver.Outcome // as it was recorded
	token    uint64
	e        *exec
	at       time.Time
	request  request
	redacted bool
	until    time.Time // when it ceased to be the record's outcome; zero: it has not
}

const providerName = "provider"

func newWorld(base context.Context, p plan, count *Counters, tracing bool) *world {
	w := &world{
		plan: p, dice: newDice(p.seed), base: base, start: time.Now(), b: memstore.New(nil), count: count,
		tracing: tracing, wake: make(chan struct{}, 1),
	}
	w.mu.Lock()
	w.sentinels = sentinels()
	w.timer = time.NewTimer(time.Hour)
	w.timer.Stop()
	for i, kp := range p.keys {
		name := fmt.Sprintf("k%d", i)
		w.keys = append(w.keys, &key{n: i, plan: kp, name: name, stored: driver.JoinKey(p.namespace, name)})
	}
	for i := range p.processes {
		w.startProcess(p.options[i%len(p.options)])
	}
	return w
}

func (w *world) startProcess(sp storePlan) *proc {
	p := &proc{n: len(w.procs), w: w, plan: sp}
	opts := sp.opts
	opts.Observer = observer{w, p}
	var b driver.Backend = &port{w, p}
	switch {
	case sp.checks:
		b = &checkedPort{port{w, p}}
	case p.n%2 == 1:
		b = &reusedPort{port{w, p}}
	}
	store, err := idem.New(b, &opts)
	if err != nil {
		w.fail(A8, "New refused valid options %+v: %v", opts, err)
		store, _ = idem.New(b, nil)
	}
	p.store = store
	w.procs = append(w.procs, p)
	return p
}

// alive returns the processes that are neither dead nor closed.
func (w *world) alive() []*proc {
	ps := make([]*proc, 0, len(w.procs))
	for _, p := range w.procs {
		if !p.dead && p.closed.IsZero() {
			ps = append(ps, p)
		}
	}
	return ps
}

// park waits for the scheduler's word.
func (w *world) park(it *item) word {
	w.mu.Lock()
	if it.p.dead {
		w.mu.Unlock()
		return word{die: true, err: errDead}
	}
	w.arrived = append(w.arrived, it)
	w.mu.Unlock()
	it.forget = context.AfterFunc(it.ctx, w.rouse)
	w.rouse()
	word := <-it.resume
	it.forget()
	return word
}

// rouse ends the scheduler's sleep.
func (w *world) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle waits until everything is blocked, takes in what happened, and judges.
func (w *world) settle() {
	w.mu.Unlock()
	synctest.Wait()
	w.mu.Lock()
	select {
	case <-w.wake:
	default:
	}
	if w.broken() { // what comes after the first violation says no more
		w.forget()
	} else {
		w.judge()
	}
	if len(w.arrived) > 0 {
		w.parked = append(w.parked, w.arrived...)
		w.arrived = w.arrived[:0]
		slices.SortFunc(w.parked, func(a, b *item) int { return a.id.compare(b.id) })
	}
	if w.tracing {
		slices.Sort(w.news)
		w.trace = append(w.trace, w.news...)
	}
	w.news = w.news[:0]
}

// nudge moves the clock to an instant that belongs to this step alone: the part
// below a microsecond counts the steps, and the engine's durations, as they are
// drawn, are whole microseconds.
func (w *world) nudge() {
	w.steps++
	now := time.Since(w.start)
	at := (now/time.Microsecond+1)*time.Microsecond + time.Duration(w.steps%1000)
	w.sleep(at - now)
	w.nudging = true
	w.settle()
	w.nudging = false
}

// sleep lets time pass, for at most d: news end it.
func (w *world) sleep(d time.Duration) {
	w.mu.Unlock()
	defer w.mu.Lock()
	w.timer.Reset(d)
	select {
	case <-w.timer.C:
	case <-w.wake:
		w.timer.Stop()
	}
}

// resume gives a parked item a word, and waits until all are blocked again.
func (w *world) resume(it *item, wd word) {
	w.parked = slices.DeleteFunc(w.parked, func(o *item) bool { return o == it })
	if it.call != nil && it.call.key != nil && !wd.stay && (it.call.method < mInspect || it.call.method == mRedact || it.call.method == mReset) {
		w.older = append(w.older, it.call)
	}
	it.resume <- wd
	w.settle()
}

// fail notes a Violation. The run ends after this step.
func (w *world) fail(r rule, format string, args ...any) {
	w.violations = append(w.violations, Violation{r.String(), fmt.Sprintf(format, args...)})
	if w.tracing {
		w.news = append(w.news, fmt.Sprintf("  VIOLATION %s: "+format, append([]any{r}, args...)...))
	}
}

// note adds a line to the trace. The caller holds mu.
func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.news = append(w.news, "  "+fmt.Sprintf(format, args...))
	}
}

// say adds the scheduler's own line to the trace, at once.
func (w *world) say(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%3d %-13s ", w.steps, time.Since(w.start))+fmt.Sprintf(format, args...))
	}
}
