package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// walkRules run long random sequences of calls on one key and compare each step
// with the contract: they find what nobody thought of writing down as a rule.
func walkRules() []rule {
	var out []rule
	for seed := range uint64(8) {
		out = append(out, rule{
			name: fmt.Sprintf("walk/seed_%d", seed), text: cite(claimOrder, i1, i2, i3, i4, i5, i6, i13),
			check: func(t *trial) { newWalk(t, seed).run(120) },
		})
	}
	return out
}

// walk is one random sequence. It keeps what the record alone does not tell.
type walk struct {
	*subject
	rnd  *rand.Rand
	refs []driver.Ref // of every claim that acquired; the last is the current one
	open bool         // the last claim is neither released nor completed
	done *driver.Outcome
	top  uint64 // the highest token seen
	step string
}

func newWalk(t *trial, seed uint64) *walk {
	t.tick = 0                                                              // a short lease ends in lapse and nowhere else
	return &walk{subject: t.subject(), rnd: rand.New(rand.NewPCG(seed, 7))} //nolint:gosec // a seed that replays is the point
}

// one in n.
func (w *walk) oneIn(n int) bool { return w.rnd.IntN(n) == 0 }

func (w *walk) run(steps int) {
	for i := range steps {
		looked := time.Now()
		before := w.picture()
		switch k := w.rnd.IntN(10); {
		case k < 4:
			w.claim(before)
		case k < 9 && len(w.refs) > 0:
			w.act(before)
		case w.oneIn(2):
			w.step = "time passes"
			w.lapse()
		}
		w.step = fmt.Sprintf("step %d, %s", i, w.step)
		w.judge(before)
		if len(w.failures) > 0 {
			w.inTime(before, looked)
			return
		}
	}
}

// inTime forgets the failures of a step that was too slow to tell: a lease or a
// retention that stood when it began may have ended since.
func (w *walk) inTime(before picture, looked time.Time) {
	r := before.rec
	if r == nil || r.LeaseLeft == 0 && r.RetentionLeft == 0 {
		return
	}
	left := r.LeaseLeft // which ends first, where a claim has a retention too
	if left == 0 {
		left = r.RetentionLeft
	}
	if time.Since(looked) >= left {
		w.failures = nil
		panic(stop{slow: true})
	}
}

// now describes the record as a situation, for decide.
func (w *walk) now(before picture) situation {
	if before.rec == nil {
		return situation{name: "absent"}
	}
	r := before.rec
	return situation{name: "found", state: r.State, doubt: r.Doubt, held: r.Held, open: w.open}
}

func (w *walk) last() driver.Ref {
	if len(w.refs) == 0 {
		return driver.Ref{}
	}
	return w.refs[len(w.refs)-1]
}

// claim claims with random permissions, by a new owner or as a copy of the last
// claim.
func (w *walk) claim(before picture) {
	may := takeAll
	for x := driver.TakeAbsent; x <= driver.TakeHeld; x <<= 1 {
		if w.oneIn(5) {
			may &^= x
		}
	}
	opts := []option{take(may)}
	if w.oneIn(3) {
		opts = append(opts, lease(w.short()))
	}
	if w.oneIn(3) {
		opts = append(opts, prints(printOf([]string{"k1", "k1", "k1", "k2"}[w.rnd.IntN(4)], []string{"x", "x", "x", "y"}[w.rnd.IntN(4)])))
	}
	if w.oneIn(4) {
		opts = append(opts, expecting(w.last().Token+w.rnd.Uint64N(2)))
	}
	if w.oneIn(4) && before.rec != nil {
		opts = append(opts, owned(w.last().Owner))
	}
	p := w.params(opts...)
	sit := w.now(before)
	again := sit.state != 0 && p.Owner == w.last().Owner
	fact, fault := decide(&sit, w.last(), before.rec, p)
	w.step = fmt.Sprintf("claim of a %v record", sit.state)
	asked := time.Now()
	res, err := w.b.Claim(w.ctx(), p)
	switch {
	case fault != nil:
		w.refused(err, fault, w.step)
		w.unchanged(before, w.step)
	case err != nil || res == nil || res.Fact != fact:
		w.Errorf("%s: %s, want %v", w.step, found(res, err), fact)
	case again || fact != driver.Acquired && fact != driver.TakenOver:
		w.unchanged(before, w.step)
	default:
		w.acquired(w.step, &sit, driver.Ref{Token: w.top}, before.rec, p, &res.Record, asked)
		w.refs = append(w.refs, driver.Ref{Key: w.key, Owner: p.Owner, Token: res.Record.Token})
		w.open, w.done = true, nil
	}
}

// act makes a random call of a random claim, more often of the current one.
func (w *walk) act(before picture) {
	ref := w.last()
	if w.oneIn(3) {
		ref = w.refs[w.rnd.IntN(len(w.refs))]
	}
	current := ref == w.last() && w.open && before.rec != nil
	all := attacks()
	a := all[w.rnd.IntN(len(all))]
	if !current && ref == w.last() && a.takesZero() {
		w.step = "nothing" // may be a repetition, which is another rule's
		return
	}
	if a.takesZero() && w.oneIn(4) {
		ref.Token = 0
	}
	w.step = a.name
	if a.name == "Complete" && w.oneIn(3) {
		w.completeShort(before, ref, current)
		return
	}
	err := a.call(w.subject, ref)
	if !current {
		w.refused(err, driver.ErrLeaseLost, w.step+" by a stale owner")
		w.unchanged(before, w.step+" by a stale owner")
		return
	}
	w.must(err, w.step)
	if a.takesZero() {
		w.open = false
		w.remember(a)
	}
}

func (w *walk) completeShort(before picture, ref driver.Ref, current bool) {
	w.step = "Complete with a short retention"
	err := w.b.Complete(w.ctx(), ref, &driver.CompleteParams{Outcome: success("stale"), Retention: w.short()})
	if !current {
		w.refused(err, driver.ErrLeaseLost, w.step+" by a stale owner")
		w.unchanged(before, w.step+" by a stale owner")
		return
	}
	w.must(err, w.step)
	w.open = false
	w.lapse()
	w.gone(w.step)
}

func (w *walk) remember(a attack) {
	var o driver.Outcome
	switch a.name {
	case "Complete":
		o = success("stale")
	case "Complete failed":
		o = failure("stale")
	default:
		return
	}
	w.done = &o
}

// judge checks what holds after every step.
func (w *walk) judge(before picture) {
	rec, err := w.b.Inspect(w.ctx(), w.key)
	if err != nil {
		if !errors.Is(err, driver.ErrNotFound) || w.done != nil || w.open {
			w.Errorf("%s: Inspect: error %q", w.step, err)
		}
		return
	}
	if rec.Token < w.top || rec.Token != w.last().Token || rec.Owner != w.last().Owner {
		w.Errorf("%s: token %d of owner %x; the last claim's is %d, the highest seen %d", w.step, rec.Token, rec.Owner[:3], w.last().Token, w.top)
	}
	w.top = rec.Token
	if w.done != nil && !rec.Outcome.Equal(w.done) {
		w.Errorf("%s: outcome %s, recorded was %s", w.step, describe(&rec.Outcome), describe(w.done))
	}
	if rec.Held && !rec.Doubt {
		w.Errorf("%s: held, but not in doubt", w.step)
	}
	if before.rec != nil && before.rec.Doubt && !rec.Doubt && !strings.HasSuffix(w.step, " not executed") {
		w.Errorf("%s: the doubt is gone", w.step)
	}
}
