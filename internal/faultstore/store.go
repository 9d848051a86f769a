package faultstore

import (
	"context"
	"errors"
	"sync"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Backend   = (*Store)(nil)
	_ driver.Watcher   = (*Store)(nil)
	_ driver.Editor    = (*Store)(nil)
	_ driver.Unwrapper = (*Store)(nil)
)

// Methods of a call.
const (
	Claim    = "Claim"
	Renew    = "Renew"
	Annotate = "Annotate"
	Complete = "Complete"
	Release  = "Release"
	Inspect  = "Inspect"
	Watch    = "Watch"
	Redact   = "Redact"
	Reset    = "Reset"
)

// Call is one call of a method.
type Call struct {
	Method string
	Key    string
	Owner  driver.Owner // zero where the method has none
	Token  uint64       // of a Ref or of EditParams, else 0
	Seq    int          // of all calls of the Store, from 1
	Nth    int          // of the calls of this method, from 1
	// Params is a copy of the call's parameters, of the pointer type that the
	// method takes; nil for Inspect and Watch.
	Params any
}

// ref of a call that has one.
func (c Call) ref() driver.Ref { return driver.Ref{Key: c.Key, Owner: c.Owner, Token: c.Token} }

// Store is a backend that makes faults. It is safe for concurrent use.
type Store struct {
	inner driver.Backend
	hook  Hook

	mu  sync.Mutex // guards log, also its entries, and nth; not held across other code
	log []*Entry
	nth map[string]int
}

// New wraps inner. A nil hook makes no faults.
func New(inner driver.Backend, hook Hook) *Store {
	return &Store{inner: inner, hook: hook, nth: make(map[string]int)}
}

// Unwrap gives the backend within, for the optional interfaces that the Store
// does not have itself.
func (s *Store) Unwrap() driver.Backend { return s.inner }

// Claim implements [driver.Backend].
func (s *Store) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	c := Call{Method: Claim, Key: p.Key, Owner: p.Owner, Params: cloneClaim(p)}
	return do(ctx, s, c, func() (*driver.ClaimResult, error) { return s.inner.Claim(ctx, p) })
}

// Renew implements [driver.Backend].
func (s *Store) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	return s.doRef(ctx, Renew, ref, clonePlain(p), func() error { return s.inner.Renew(ctx, ref, p) })
}

// Annotate implements [driver.Backend].
func (s *Store) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	return s.doRef(ctx, Annotate, ref, cloneAnnotate(p), func() error { return s.inner.Annotate(ctx, ref, p) })
}

// Complete implements [driver.Backend].
func (s *Store) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	return s.doRef(ctx, Complete, ref, cloneComplete(p), func() error { return s.inner.Complete(ctx, ref, p) })
}

// Release implements [driver.Backend].
func (s *Store) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return s.doRef(ctx, Release, ref, cloneRelease(p), func() error { return s.inner.Release(ctx, ref, p) })
}

// Inspect implements [driver.Backend].
func (s *Store) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	return do(ctx, s, Call{Method: Inspect, Key: key}, func() (*driver.Record, error) { return s.inner.Inspect(ctx, key) })
}

// Watch implements [driver.Watcher]. Without a Watcher within it returns
// [errors.ErrUnsupported], which costs the caller its hints.
func (s *Store) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	return do(ctx, s, Call{Method: Watch, Key: key}, func() (<-chan struct{}, error) {
		if w, ok := driver.As[driver.Watcher](s.inner); ok {
			return w.Watch(ctx, key)
		}
		return nil, errors.ErrUnsupported
	})
}

// Redact implements [driver.Editor]. Without an Editor within it returns
// [errors.ErrUnsupported].
func (s *Store) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	c := Call{Method: Redact, Key: key, Token: p.Token, Params: clonePlain(p)}
	return s.doErr(ctx, c, func() error { return s.edit(ctx, Redact, key, p) })
}

// Reset implements [driver.Editor], like Redact.
func (s *Store) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	c := Call{Method: Reset, Key: key, Token: p.Token, Params: clonePlain(p)}
	return s.doErr(ctx, c, func() error { return s.edit(ctx, Reset, key, p) })
}

func (s *Store) edit(ctx context.Context, method, key string, p *driver.EditParams) error {
	e, ok := driver.As[driver.Editor](s.inner)
	if !ok {
		return errors.ErrUnsupported
	}
	if method == Redact {
		return e.Redact(ctx, key, p)
	}
	return e.Reset(ctx, key, p)
}

func (s *Store) doRef(ctx context.Context, method string, ref driver.Ref, params any, send func() error) error {
	return s.doErr(ctx, Call{Method: method, Key: ref.Key, Owner: ref.Owner, Token: ref.Token, Params: params}, send)
}

func (s *Store) doErr(ctx context.Context, c Call, send func() error) error {
	_, err := do(ctx, s, c, func() (struct{}, error) { return struct{}{}, send() })
	return err
}

// do makes a call of the Store: what the hook wants, around send.
func do[R any](ctx context.Context, s *Store, c Call, send func() (R, error)) (reply R, err error) {
	e := s.begin(c)
	defer func() { s.returned(e, err) }()
	var lost R // the reply of a call that has none
	var f Fault
	if s.hook != nil {
		f = s.hook(ctx, e.Call) // its Call never changes
	}
	if f.Before != nil {
		if err := f.Before(ctx); err != nil {
			return lost, err
		}
	}
	if f.Drop {
		err = ErrDropped
	} else {
		reply, err = sendLogged(s, e, send)
	}
	if f.Twice && !f.Drop {
		reply, err = sendLogged(s, e, send)
	}
	if f.After != nil {
		if err := f.After(ctx); err != nil {
			return lost, err
		}
	}
	if f.Err != nil {
		return lost, f.Err
	}
	return reply, err
}

// sendLogged sends a call to the backend within and notes what it said.
func sendLogged[R any](s *Store, e *Entry, send func() (R, error)) (R, error) {
	s.sending(e)
	reply, err := send()
	var fact driver.Fact
	if res, ok := any(reply).(*driver.ClaimResult); ok && res != nil {
		fact = res.Fact
	}
	s.answered(e, fact, err)
	return reply, err
}

// Replay sends an earlier call to the backend within once more, with the
// parameters that it had, whether or not it was applied at the time: the copy
// that a network or a client library delivers late. The hook does not see it. It
// returns what the backend said, with the fact if it was a Claim. A Watch cannot
// be replayed.
func (s *Store) Replay(ctx context.Context, c Call) (driver.Fact, error) {
	e := s.beginLate(c)
	reply, err := sendLogged(s, e, func() (*driver.ClaimResult, error) { return s.resend(ctx, c) })
	s.returned(e, err)
	if err != nil || reply == nil {
		return 0, err
	}
	return reply.Fact, nil
}

func (s *Store) resend(ctx context.Context, c Call) (*driver.ClaimResult, error) {
	switch p := c.Params.(type) {
	case *driver.ClaimParams:
		return s.inner.Claim(ctx, p)
	case *driver.RenewParams:
		return nil, s.inner.Renew(ctx, c.ref(), p)
	case *driver.AnnotateParams:
		return nil, s.inner.Annotate(ctx, c.ref(), p)
	case *driver.CompleteParams:
		return nil, s.inner.Complete(ctx, c.ref(), p)
	case *driver.ReleaseParams:
		return nil, s.inner.Release(ctx, c.ref(), p)
	case *driver.EditParams:
		return nil, s.edit(ctx, c.Method, c.Key, p)
	}
	if c.Method == Inspect {
		_, err := s.inner.Inspect(ctx, c.Key)
		return nil, err
	}
	return nil, errors.ErrUnsupported
}
