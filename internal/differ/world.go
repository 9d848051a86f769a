package differ

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// world is where a script is played: three processes over one backend.
type world struct {
	testing.TB
	ctx    context.Context //nolint:containedctx // of the test that plays
	plan   *plan
	b      driver.Backend
	stores []*idem.Store
	space  string
	tokens map[string]uint64 // the last one seen of each key
	olds   []old
	lines  Lines
	large  int
}

// old is a claim that somebody made and still has.
type old struct {
	process int
	claim   *idem.Claim
}

// coded is an error with a code.
type coded struct{ code string }

func (e coded) Error() string { return e.code + ": no funds" }
func (e coded) Code() string  { return e.code }

var errPlain = errors.New("something broke")

// newWorld draws the options. None of them may make a script wait.
func newWorld(tb testing.TB, b driver.Backend, seed uint64) *world {
	tb.Helper()
	p := newPlan(seed)
	w := &world{
		TB: tb, ctx: tb.Context(), plan: p, b: b, space: fmt.Sprintf("differ-%d", seed),
		tokens: map[string]uint64{}, large: pick(p, 16, 4096, 70_000),
	}
	one, two := idem.FingerprintKey{ID: "k1", Key: []byte("a secret of 16 bytes")}, idem.FingerprintKey{ID: "k2", Key: []byte("another of 16 bytes")}
	keys := pick(p, [][]idem.FingerprintKey{nil, nil, nil}, [][]idem.FingerprintKey{{one}, {one}, {one}},
		[][]idem.FingerprintKey{{one}, {two, one}, {two}}) // the last rotates
	policy := pick(p, idem.Rerun, idem.Hold)
	lease, retention := pick(p, time.Hour, 2*time.Hour), pick(p, 24*time.Hour, 90*24*time.Hour)
	revived := pick(p, nil, map[string]error{"card_declined": coded{"card_declined"}})
	for i := range 3 {
		s, err := idem.New(b, &idem.Options{
			Namespace: w.space, Lease: lease, RenewEvery: lease / 3, Retention: retention, OnUnknown: policy, MaxValue: w.large - 1,
			FingerprintKeys: keys[i], Errors: revived, Observer: idem.Discard, StoreTimeout: time.Minute, RecordTimeout: time.Minute,
		})
		if err != nil {
			tb.Fatal(err)
		}
		w.stores = append(w.stores, s)
	}
	return w
}

func (w *world) stored(key string) string { return driver.JoinKey(w.space, key) }

// step makes one step, and notes what it left.
func (w *world) step(s step) {
	w.note(s.String(), w.make(s), s.key)
}

func (w *world) note(what, verdict, key string) {
	w.lines = append(w.lines, fmt.Sprintf("%s => %s | %s", what, verdict, w.look(key)))
}

func (w *world) make(s step) string {
	store := w.stores[s.process]
	switch s.kind {
	case execute:
		return w.execute(s)
	case claim:
		c, err := store.Claim(w.ctx, s.key, 0, w.options(s)...)
		if err == nil {
			w.olds = append(w.olds, old{s.process, c})
			return claimed(c)
		}
		if c != nil {
			return result(c.Result, err)
		}
		return result(idem.Result{}, err)
	case lapse:
		return w.lapse(w.ctx, s.key)
	case resolve, redact, reset:
		return w.operate(s)
	}
	if len(w.olds) == 0 {
		return "no claim"
	}
	o := w.olds[s.old%len(w.olds)]
	return w.continued(s, w.stores[o.process], o.claim)
}

// continued goes on with a claim that was made earlier, perhaps long settled or
// taken over. Its key may be another one than the step's.
func (w *world) continued(s step, store *idem.Store, c *idem.Claim) string {
	var err error
	switch s.kind {
	case record:
		err = store.Record(w.ctx, c, idem.Result{Value: []byte("recorded")})
	case fail:
		err = store.RecordFailure(w.ctx, c, w.failure(s.end))
	case release:
		err = store.Release(w.ctx, c)
	case renew:
		err = c.Renew(w.ctx)
	case saveRef:
		err = c.SaveRef(w.ctx, "acme", "late")
	}
	return c.Key() + " " + result(idem.Result{}, err) + " " + w.look(c.Key())
}

func (w *world) options(s step) (opts []idem.ExecuteOption) {
	if s.request != "" {
		opts = append(opts, idem.WithFingerprint([]byte(s.request)))
	}
	if s.hold {
		opts = append(opts, idem.OnUnknown(idem.Hold))
	}
	if s.provider {
		opts = append(opts, idem.WithProvider("acme", 48*time.Hour))
	}
	if s.recovery != "" {
		opts = append(opts, idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) {
			if s.recovery == plain {
				return idem.Recovery{}, errPlain
			}
			return w.verdict(s.recovery), nil
		}))
	}
	return opts
}

func (w *world) verdict(end string) idem.Recovery {
	switch end {
	case permanent, unknown:
		return idem.RecoveredFailure(coded{"card_declined"})
	case notApplied, plain, panics:
		return idem.NotExecuted()
	case large:
		return idem.Recovered(idem.Result{Value: make([]byte, w.large)})
	}
	return idem.Recovered(idem.Result{Value: []byte("recovered")})
}

func (w *world) failure(end string) error {
	switch end {
	case permanent:
		return idem.Permanent(coded{"card_declined"})
	case unknown:
		return idem.Unknown(errPlain)
	case notApplied:
		return idem.NotApplied(errPlain)
	}
	return errPlain
}

// execute notes how often the operation ran beside what came back.
func (w *world) execute(s step) (verdict string) {
	ran, seen := 0, ""
	defer func() {
		if p := recover(); p != nil {
			verdict = fmt.Sprintf("panic %v", p)
		}
		verdict = fmt.Sprintf("ran %d%s, %s", ran, seen, verdict)
	}()
	res, err := w.stores[s.process].Execute(w.ctx, s.key, func(ctx context.Context) (idem.Result, error) {
		ran++
		c, _ := idem.ClaimFrom(ctx)
		seen = " (" + claimed(c) + ")"
		if s.refs {
			seen += fmt.Sprintf(" ref saved: %s", result(idem.Result{}, c.SaveRef(ctx, "acme", "ch_1")))
		}
		if s.lapses {
			seen += " " + w.lapse(ctx, s.key)
		}
		if s.lapses && s.stolen {
			other := step{kind: execute, process: (s.process + 1) % 3, key: s.key, end: returns, request: s.request}
			w.note("meanwhile, "+other.String(), w.execute(other), s.key)
		}
		switch s.end {
		case returns:
			return idem.Result{Value: []byte("v" + s.request)}, nil
		case large:
			return idem.Result{Value: make([]byte, w.large)}, nil
		case panics:
			panic("as drawn")
		}
		return idem.Result{}, w.failure(s.end)
	}, w.options(s)...)
	return result(res, err)
}

// lapse lets the lease of a running claim end: a process that is gone, or stalls.
func (w *world) lapse(ctx context.Context, key string) string {
	ctx = context.WithoutCancel(ctx)
	rec, err := w.b.Inspect(ctx, w.stored(key))
	if err != nil || rec.State != driver.Claimed {
		return "no lease to end"
	}
	ref := driver.Ref{Key: rec.Key, Owner: rec.Owner, Token: rec.Token}
	if err := w.b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Millisecond, Retention: 24 * time.Hour}); err != nil {
		w.Fatalf("lapse: %v", err)
	}
	for began := time.Now(); rec.State == driver.Claimed; {
		if rec, err = w.b.Inspect(ctx, ref.Key); err != nil || time.Since(began) > time.Minute {
			w.Fatalf("the lease does not end: %v", err)
		}
	}
	return "lease ended"
}

func (w *world) operate(s step) string {
	store := w.stores[s.process]
	rec, err := store.Inspect(w.ctx, s.key)
	if err != nil {
		rec = &idem.Record{Token: 1}
	}
	token := rec.Token
	if s.stale {
		token--
	}
	switch s.kind {
	case resolve:
		err = store.Resolve(w.ctx, s.key, token, idem.Resolution{Recovery: w.verdict(s.end), By: "olga", Why: "asked the bank"})
	case redact:
		err = store.Redact(w.ctx, s.key, token, "a card number")
	case reset:
		err = store.Reset(w.ctx, s.key, token, "refunded")
	}
	return result(idem.Result{}, err)
}
