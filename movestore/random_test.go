package movestore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/movestore"
)

var (
	seeds = flag.Int("move.seeds", 400, "migrations to play") //nolint:gochecknoglobals // flags are
	first = flag.Uint64("move.first", 1, "the first seed")    //nolint:gochecknoglobals // flags are
)

// kind of a process: which deploy it is of.
type kind int

const (
	plainOld kind = iota
	both
	newAlone
	plainNew
)

// play is one migration, all of it decided by one number: which process gets
// which delivery, which of the calls that are under way goes on next, what goes
// wrong with it, when time passes, and when a process dies.
//
// Half of the plays hold a key when an end is unknown: there it may have one
// effect, whatever happens. The others run it again: there it may have none once
// somebody was told its outcome, and operations look at their context before they
// have their effect.
type play struct {
	t    *testing.T
	hold bool
	rng  *rand.Rand
	old  *memstore.Backend
	next *memstore.Backend
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	procs   []*proc
	parked  []*item
	arrived int
	calm    bool // no faults any more
	effects map[string]int
	acked   map[string]string
	log     []string
}

type proc struct {
	kind  kind
	store *idem.Store
	dead  bool // guarded by play.mu
}

// item is a call, or an operation, that waits for its turn.
type item struct {
	p    *proc
	n    int
	name string
	turn chan faultstore.Fault
}

var errLost = errors.New("the network is gone")

func newPlay(t *testing.T, seed uint64) *play {
	t.Helper()
	return &play{
		t: t, hold: seed%2 == 0, rng: rand.New(rand.NewPCG(seed, 7)), old: memstore.New(nil), next: memstore.New(nil),
		effects: make(map[string]int), acked: make(map[string]string),
	}
}

// park waits for the controller. What a dead process does has no effect.
func (w *play) park(p *proc, name string) faultstore.Fault {
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return faultstore.Fault{Drop: true, Err: errLost}
	}
	if w.calm {
		w.mu.Unlock()
		return faultstore.Fault{}
	}
	w.arrived++
	it := &item{p: p, n: w.arrived, name: name, turn: make(chan faultstore.Fault)}
	w.parked = append(w.parked, it)
	w.mu.Unlock()
	return <-it.turn
}

func (w *play) start(k kind) *proc {
	p := &proc{kind: k}
	reach := func(b driver.Backend, name string) driver.Backend {
		return faultstore.New(b, func(_ context.Context, c faultstore.Call) faultstore.Fault {
			return w.park(p, fmt.Sprintf("%s.%s %s", name, c.Method, c.Key))
		})
	}
	old, next := reach(w.old, "old"), reach(w.next, "new")
	var b driver.Backend
	switch k {
	case plainOld:
		b = old
	case plainNew:
		b = next
	case both:
		b = move(w.t, old, next, movestore.Both)
	case newAlone:
		b = move(w.t, old, next, movestore.NewAlone)
	}
	policy := idem.Rerun
	if w.hold {
		policy = idem.Hold
	}
	s, err := idem.New(b, &idem.Options{
		Lease: 10 * time.Second, MaxRun: time.Minute, Retention: 90 * 24 * time.Hour,
		OnUnknown: policy, Observer: idem.Discard, StoreTimeout: time.Hour, RecordTimeout: 20 * time.Second,
	})
	require.NoError(w.t, err)
	p.store = s
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs = append(w.procs, p)
	return p
}

// deliver hands a key to a process.
func (w *play) deliver(p *proc, key string, refuse bool) {
	w.wg.Go(func() {
		res, err := p.store.Execute(w.t.Context(), key, func(ctx context.Context) (idem.Result, error) {
			w.park(p, "operation "+key)
			return w.effect(p, key, refuse || !w.hold && ctx.Err() != nil)
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note("%v returns %q %v", p.kind, res.Value, err)
		if err == nil && !p.dead {
			w.ack(key, string(res.Value))
		}
	})
}

// effect is the operation: it counts, unless its process is dead or it refuses.
func (w *play) effect(p *proc, key string, refuse bool) (idem.Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.dead:
		return idem.Result{}, errLost
	case refuse:
		return idem.Result{}, idem.NotApplied(errors.New("throttled"))
	}
	if was, told := w.acked[key]; told {
		w.t.Errorf("%s: an effect after its outcome %q was told", key, was)
	}
	w.effects[key]++
	w.note("EFFECT of %s by %v", key, p.kind)
	return idem.Result{Value: fmt.Append(nil, key, " ", w.effects[key])}, nil
}

// ack notes an outcome that a caller was told. The caller holds mu.
func (w *play) ack(key, value string) {
	if was, ok := w.acked[key]; ok && was != value {
		w.t.Errorf("%s: two outcomes: %q and %q", key, was, value)
	}
	w.acked[key] = value
}

func (w *play) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// kill ends all processes of a kind, wherever they are: some of the calls that
// were under way arrive, and nobody hears the answers.
func (w *play) kill(k kind) {
	w.mu.Lock()
	var theirs []*item
	for _, p := range w.procs {
		p.dead = p.dead || p.kind == k
	}
	w.parked = slices.DeleteFunc(w.parked, func(it *item) bool {
		if it.p.dead {
			theirs = append(theirs, it)
		}
		return it.p.dead
	})
	w.note("KILL %v", k)
	w.mu.Unlock()
	for _, it := range theirs {
		it.turn <- faultstore.Fault{Drop: w.rng.IntN(2) == 0, Err: errLost}
	}
	synctest.Wait()
}

// step lets one thing happen.
func (w *play) step(kinds []kind, keys int) {
	synctest.Wait()
	w.mu.Lock()
	slices.SortFunc(w.parked, func(a, b *item) int { return a.n - b.n })
	ready := len(w.parked)
	w.mu.Unlock()
	switch n := w.rng.IntN(20); {
	case n < 3 || ready == 0:
		k := kinds[w.rng.IntN(len(kinds))]
		w.deliver(w.alive(k), fmt.Sprint("k", w.rng.IntN(keys)), w.rng.IntN(6) == 0)
	case n == 3:
		time.Sleep(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
	case n == 4 && w.rng.IntN(4) == 0:
		w.kill(kinds[w.rng.IntN(len(kinds))])
	default:
		w.resume(w.rng.IntN(ready), w.fault())
	}
	synctest.Wait()
}

// alive returns a process of the kind, which is started if there is none.
func (w *play) alive(k kind) *proc {
	w.mu.Lock()
	var ps []*proc
	for _, p := range w.procs {
		if p.kind == k && !p.dead {
			ps = append(ps, p)
		}
	}
	w.mu.Unlock()
	if len(ps) < 2 && w.rng.IntN(2) == 0 || len(ps) == 0 {
		return w.start(k)
	}
	return ps[w.rng.IntN(len(ps))]
}

func (w *play) fault() faultstore.Fault {
	switch w.rng.IntN(12) {
	case 0:
		return faultstore.Fault{Drop: true, Err: errLost}
	case 1:
		return faultstore.Fault{Err: errLost} // applied
	case 2:
		return faultstore.Fault{Twice: true}
	}
	return faultstore.Fault{}
}

func (w *play) resume(i int, f faultstore.Fault) {
	w.mu.Lock()
	it := w.parked[i]
	w.parked = slices.Delete(w.parked, i, i+1)
	w.note("%v %s %+v", it.p.kind, it.name, f)
	w.mu.Unlock()
	it.turn <- f
}

// drain lets all that is under way end, without faults.
func (w *play) drain() {
	w.mu.Lock()
	w.calm = true
	left := w.parked
	w.parked = nil
	w.mu.Unlock()
	for _, it := range left {
		it.turn <- faultstore.Fault{}
	}
	w.wg.Wait()
	time.Sleep(time.Minute) // what is given up in the background
	synctest.Wait()
}

// era plays some steps with processes of two deploys side by side.
func (w *play) era(keys, steps int, kinds ...kind) {
	w.mu.Lock()
	w.calm = false
	w.mu.Unlock()
	for range steps {
		if w.t.Failed() {
			return
		}
		w.step(kinds, keys)
	}
}

// verdict asserts that no key had two effects, and that what a caller was told is
// what a process of the kind tells.
func (w *play) verdict(k kind, keys int) {
	w.drain()
	for i := range keys {
		key := fmt.Sprint("k", i)
		w.deliver(w.alive(k), key, false)
		w.wg.Wait()
	}
	for i := range keys {
		key := fmt.Sprint("k", i)
		if n := w.effects[key]; n > 1 && w.hold {
			w.t.Errorf("%s: %d effects", key, n)
		}
		was, told := w.acked[key]
		res, err := w.alive(k).store.Execute(w.t.Context(), key, func(context.Context) (idem.Result, error) {
			return idem.Result{}, idem.NotApplied(errors.New("it has run before"))
		})
		switch {
		case told && (err != nil || string(res.Value) != was):
			w.t.Errorf("%s: a caller was told %q, and now %v tells %q, %v", key, was, k, res.Value, err)
		case !told && (!w.hold || !errors.Is(err, idem.ErrOutcomeUnknown)):
			w.t.Errorf("%s: nobody was told: %v", key, err)
		}
	}
	if w.t.Failed() {
		for _, l := range w.log {
			w.t.Log(l)
		}
	}
}

func (w *play) copyAll() {
	for range 3 {
		c, err := move(w.t, w.old, w.next, movestore.NewAlone).Copy(w.t.Context())
		require.NoError(w.t, err)
		if c.Left == 0 {
			return
		}
		time.Sleep(time.Minute)
	}
	require.Fail(w.t, "something is left in the old store")
}

func TestAMigrationInThreeDeploysDoublesAndLosesNothing(t *testing.T) {
	t.Parallel()
	const keys = 4
	runs := *seeds
	if testing.Short() {
		runs /= 10
	}
	effects := 0
	for seed := *first; seed < *first+uint64(runs) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newPlay(t, seed)
			w.era(keys, 60, plainOld, both)
			w.kill(plainOld)
			w.era(keys, 60, both, newAlone)
			w.kill(both)
			w.era(keys, 20, newAlone)
			w.drain()
			w.copyAll()
			w.era(keys, 40, newAlone, plainNew)
			w.kill(newAlone)
			w.verdict(plainNew, keys)
			for _, n := range w.effects {
				effects += n
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	t.Logf("%d migrations, %d effects", runs, effects)
	require.Greater(t, effects, runs*keys/3, "operations run")
}
