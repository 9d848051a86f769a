package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/idem-go/idem/driver"
)

// call is one call of the backend, for the failure message. It is formatted only
// when a rule has failed.
type call struct {
	method string
	key    string
	owner  driver.Owner
	token  uint64
	detail any
	fact   driver.Fact
	err    error
}

func (c *call) String() string {
	what := "ok"
	switch {
	case c.err != nil:
		what = "error: " + c.err.Error()
	case c.fact != 0:
		what = c.fact.String()
	}
	key := c.key
	if len(key) > 60 {
		key = fmt.Sprintf("%s... (%d bytes)", key[:60], len(key))
	}
	return fmt.Sprintf("%-8s %q owner %x token %d%v: %s", c.method, key, c.owner[:3], c.token, c.detail, what)
}

// trace keeps the last calls of a trial.
type trace struct {
	mu    sync.Mutex
	calls [24]call // a ring; mu guards it and n
	n     int
}

func (tr *trace) add(c call) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.calls[tr.n%len(tr.calls)] = c
	tr.n++
}

func (tr *trace) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var b strings.Builder
	for i := max(0, tr.n-len(tr.calls)); i < tr.n; i++ {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, tr.calls[i%len(tr.calls)].String())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// traced notes each call of a backend. Optional interfaces are found through
// Unwrap and are not noted.
type traced struct {
	b  driver.Backend
	tr *trace
}

func (w *traced) Unwrap() driver.Backend { return w.b }

// claimDetail and the like print what matters of the parameters.
type claimDetail struct {
	take   driver.Take
	expect uint64
}

func (d claimDetail) String() string {
	s := fmt.Sprintf(" take %05b", d.take)
	if d.expect != 0 {
		s += fmt.Sprintf(" expect %d", d.expect)
	}
	return s
}

func (w *traced) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	c := call{method: "Claim", key: p.Key, owner: p.Owner, detail: claimDetail{p.Take, p.ExpectToken}}
	res, err := w.b.Claim(ctx, p)
	if c.err = err; err == nil && res != nil {
		c.fact, c.token = res.Fact, res.Record.Token
	}
	w.tr.add(c)
	return res, err
}

func (w *traced) ref(method string, ref driver.Ref, detail string, err error) error {
	w.tr.add(call{method: method, key: ref.Key, owner: ref.Owner, token: ref.Token, detail: detail, err: err})
	return err
}

func (w *traced) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	return w.ref("Renew", ref, "", w.b.Renew(ctx, ref, p))
}

func (w *traced) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	detail := ""
	if p.NotExecuted {
		detail = " not executed"
	}
	return w.ref("Annotate", ref, detail, w.b.Annotate(ctx, ref, p))
}

func (w *traced) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	return w.ref("Complete", ref, "", w.b.Complete(ctx, ref, p))
}

func (w *traced) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	var detail strings.Builder
	for _, f := range []struct {
		set  bool
		name string
	}{{p.Held, " held"}, {p.Doubt, " doubt"}, {p.NotExecuted, " not executed"}} {
		if f.set {
			detail.WriteString(f.name)
		}
	}
	return w.ref("Release", ref, detail.String(), w.b.Release(ctx, ref, p))
}

func (w *traced) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	rec, err := w.b.Inspect(ctx, key)
	c := call{method: "Inspect", key: key, detail: "", err: err}
	if rec != nil {
		c.owner, c.token, c.detail = rec.Owner, rec.Token, " "+rec.State.String()
	}
	w.tr.add(c)
	return rec, err
}
