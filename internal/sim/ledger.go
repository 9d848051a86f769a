package sim

import (
	"bytes"
	"fmt"
	"time"
)

// ledger is the provider, and the truth about effects. It knows nothing of idem:
// it is told a key, and it appends.
type ledger struct {
	effects []effect
	answers map[string]answered // by provider key, of providers that remember
	pending []*run              // charges that were sent and have not landed
}

// effect is one thing that happened in the world, for good.
type effect struct {
	key   *key
	epoch int
	pk    string
	e     *exec
	open  bool // of a run without a claim
	at    time.Time
	value []byte
}

// answered is what a provider remembers of a key.
type answered struct {
	value []byte
	since time.Time
}

// charge makes the effect of a run, unless the provider knows the key it was
// sent: then it gives its first answer again. The caller holds mu.
func (l *ledger) charge(w *world, r *run) []byte {
	k := r.e.key
	if a, ok := l.answers[r.pk]; ok && k.plan.family != strict && (k.plan.family != windowed || time.Since(a.since) < k.plan.window) {
		w.note("the provider has seen the key of e%d's charge", r.e.n)
		return bytes.Clone(a.value)
	}
	value := fmt.Appendf(nil, `"%s/%d/e%d"`, k.name, len(l.effects), r.e.n)
	if k.plan.raw {
		value = fmt.Appendf(nil, `<%s/%d/e%d>`, k.name, len(l.effects), r.e.n)
	}
	l.effects = append(l.effects, effect{k, r.epoch, r.pk, r.e, r.open, time.Now(), value})
	if l.answers == nil {
		l.answers = make(map[string]answered)
	}
	l.answers[r.pk] = answered{value, time.Now()}
	r.effects++
	w.note("EFFECT %d of %s: e%d's operation, %s", len(l.effects)-1, k.name, r.e.n, value)
	w.judgeEffect(k, r.epoch)
	return bytes.Clone(value)
}

// enlarge makes a value of more than limit bytes of another one, and keeps it
// what it is: JSON or not.
func enlarge(value []byte, limit int) []byte {
	last := len(value) - 1
	big := append(bytes.Clone(value[:last]), bytes.Repeat([]byte("x"), limit)...)
	return append(big, value[last])
}

// truth is what can be said about the effect of a key, by who asks for it.
type truth uint8

const (
	unsure truth = iota
	happened
	impossible // it did not happen, and cannot happen any more
)

// truth answers an operator, or the recovery of e, from the ledger. A run that is
// still going on, or a charge under way, can say nothing yet. The caller holds mu.
func (w *world) truth(e *exec) (truth, []byte) {
	k := e.key
	for i := len(w.ledger.effects) - 1; i >= 0; i-- {
		if f := &w.ledger.effects[i]; f.key == k && f.epoch == k.epoch {
			return happened, f.value
		}
	}
	for _, r := range w.ledger.pending {
		if r.e.key == k {
			return unsure, nil
		}
	}
	for _, o := range w.execs {
		if o.key == k && o != e && o.run != nil && o.run.live && !o.p.dead {
			return unsure, nil
		}
	}
	return impossible, nil
}

// land makes a pending charge happen, or fall through. The caller holds mu.
func (w *world) land(i int, happens bool) {
	r := w.ledger.pending[i]
	w.ledger.pending = append(w.ledger.pending[:i], w.ledger.pending[i+1:]...)
	if happens {
		w.ledger.charge(w, r)
		return
	}
	w.note("the charge of e%d falls through", r.e.n)
}
