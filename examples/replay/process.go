package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/idem-go/idem/driver"
)

// process is one simulated process: a few consumers that live and die together.
// Its death is abrupt for the world outside: from that moment no call of its
// Store reaches the backend, no answer reaches the Store, and the broker
// delivers again whatever was not acknowledged. What goes on inside a dead
// process until its goroutines have noticed reaches nobody.
type process struct {
	dead atomic.Bool
	end  context.CancelFunc // of everything the process does
}

// kill is the sudden end. It may be called more than once, from inside.
func (p *process) kill() {
	p.dead.Store(true)
	p.end()
}

// consumer is what runs in a process: it handles one message at a time in each
// of the process's workers.
type consumer interface {
	// handle returns how the handling of m ended.
	handle(ctx context.Context, m *message) ending
	// close is called when the workers have stopped.
	close(ctx context.Context) error
}

// starter starts what runs in a new process.
type starter func(p *process) (consumer, error)

// runProcess keeps a process with this many workers alive until the broker has nothing
// more to hand out: one that dies is replaced at once.
func runProcess(ctx context.Context, workers int, b *broker, start starter, settle func(*broker, *message, ending)) error {
	for {
		p := &process{}
		alive, end := context.WithCancel(ctx)
		p.end = end
		c, err := start(p)
		if err != nil {
			end()
			return err
		}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() { p.work(alive, b, c, settle) })
		}
		wg.Wait()
		end()
		if err := c.close(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		if !p.dead.Load() {
			return nil
		}
	}
}

// work handles messages until the process dies or there are no more. Its context
// ends a little after its death: a worker that went on until then would take, and
// give back, the same message over and over.
func (p *process) work(ctx context.Context, b *broker, c consumer, settle func(*broker, *message, ending)) {
	for !p.dead.Load() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-b.out:
			if !ok {
				return
			}
			e := c.handle(ctx, m)
			if p.dead.Load() {
				e = ending{kind: killed} // whatever it was, nobody has heard of it
			}
			settle(b, m, e)
		}
	}
}

// mortal is a process's handle on the backend. It is cut when the process dies:
// the Store behind it gets answers that make it stop at once, and the backend
// hears nothing more of it. A call that is under way may still be applied, as
// of any process that dies; its answer is dropped.
type mortal struct {
	backend driver.Backend
	dead    *atomic.Bool
}

var errDead = errors.New("this process is dead")

// Unwrap makes the backend's optional interfaces found.
func (m *mortal) Unwrap() driver.Backend { return m.backend }

// refuse returns err once the process is dead.
func (m *mortal) refuse(err error) error {
	if m.dead.Load() {
		return errors.Join(errDead, err)
	}
	return nil
}

// Claim implements driver.Backend.
func (m *mortal) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if err := m.refuse(driver.ErrUnavailable); err != nil {
		return nil, err
	}
	res, err := m.backend.Claim(ctx, p)
	if err := m.refuse(driver.ErrUnavailable); err != nil {
		return nil, err
	}
	return res, err
}

// change is what Renew, Annotate, Complete and Release have in common.
func (m *mortal) change(call func() error) error {
	if err := m.refuse(driver.ErrLeaseLost); err != nil {
		return err
	}
	err := call()
	if err := m.refuse(driver.ErrLeaseLost); err != nil {
		return err
	}
	return err
}

// Renew implements driver.Backend.
func (m *mortal) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	return m.change(func() error { return m.backend.Renew(ctx, ref, p) })
}

// Annotate implements driver.Backend.
func (m *mortal) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	return m.change(func() error { return m.backend.Annotate(ctx, ref, p) })
}

// Complete implements driver.Backend.
func (m *mortal) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	return m.change(func() error { return m.backend.Complete(ctx, ref, p) })
}

// Release implements driver.Backend.
func (m *mortal) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return m.change(func() error { return m.backend.Release(ctx, ref, p) })
}

// Inspect implements driver.Backend.
func (m *mortal) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	if err := m.refuse(driver.ErrUnavailable); err != nil {
		return nil, err
	}
	rec, err := m.backend.Inspect(ctx, key)
	if err := m.refuse(driver.ErrUnavailable); err != nil {
		return nil, err
	}
	return rec, err
}
