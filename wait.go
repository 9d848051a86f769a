package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// Bounds of the time between two questions to the backend about a key that is
// running in another process. The hints of a driver.Watcher come besides.
const (
	pollFirst = 25 * time.Millisecond
	pollMost  = time.Second
)

// wait waits for the key to be settled, then looks or claims, for at most the
// call's own bound. It returns what [Store.ask] returns once the key is not in
// progress any more, or the error "in progress" when the bound has passed.
func (s *Store) wait(ctx context.Context, q *call, busy error) (bool, error) {
	w := s.meeting.join(&q.request)
	if w == nil {
		return false, busy
	}
	defer s.meeting.quit(&q.request, w)
	began := s.now()
	defer func() {
		q.waited = s.now() - began
		if q.claim != nil {
			q.claim.waited = q.waited
		}
	}()
	limit, cancel := context.WithTimeoutCause(ctx, q.opts.wait, errWaited)
	defer cancel()
	poll := poller{every: pollFirst}
	defer poll.stop()
	for {
		sig, err := s.nextSignal(limit, w, &poll)
		switch {
		case err != nil:
			return false, stopWaiting(ctx, err, busy)
		case sig == signalRefused:
			return false, busy
		case sig == signalTurn && s.meeting.runner(&q.request) != nil:
			continue // a call that did not wait claimed it here; its end wakes us
		}
		replay, err := s.ask(ctx, q) // not cut short by the bound: it may claim
		var progress *InProgressError
		if !errors.As(err, &progress) {
			if replay {
				s.meeting.found(&q.request, w)
			}
			return replay, err
		}
		busy = err
		if s.meeting.keepTurn(&q.request, w) {
			poll.plan(limit, &q.request, progress)
		}
	}
}

// errWaited is the cause of the context that bounds a wait.
var errWaited = newError(ErrInProgress, "", "waited as long as WithWait allows", nil)

// nextSignal returns the next signal; a poll that is due is a turn.
func (s *Store) nextSignal(ctx context.Context, w *waiter, poll *poller) (signal, error) {
	select {
	case sig := <-w.signal:
		return sig, nil
	default:
	}
	if ctx.Err() != nil { // of what is ready at once, the order is always the same
		return 0, context.Cause(ctx)
	}
	select {
	case sig := <-w.signal:
		return sig, nil
	case <-poll.due():
		return signalTurn, nil
	case <-poll.hint:
		poll.hinted()
		return signalTurn, nil
	case <-s.closing:
		return 0, newError(ErrClosed, "", "it was closed while this call waited", nil)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// stopWaiting is the error of a wait that ended without an answer.
func stopWaiting(ctx context.Context, err, busy error) error {
	switch {
	case ctx.Err() != nil:
		return withCause(ctx, busy)
	case err == error(errWaited): //nolint:errorlint // the very value is the mark
		return busy
	}
	return &bothErrors{busy, err}
}

// poller plans the next question about a key that runs in another process.
type poller struct {
	every  time.Duration
	timer  *time.Timer
	hint   <-chan struct{}
	rest   bool // a hint came: none is asked for until the next poll
	never  bool // hints are not to be had
	cancel context.CancelFunc
}

// plan sets the next poll: sooner at first, never later than the lease's end.
// It also asks the backend for hints.
func (p *poller) plan(ctx context.Context, r *request, busy *InProgressError) {
	p.stopTimer()
	next := p.every
	if left := busy.LeaseLeft; left > 0 && left < next {
		next = left + time.Millisecond
	}
	p.timer = time.NewTimer(next)
	p.every = min(p.every*3/2, pollMost)
	if p.hint != nil || p.rest {
		p.rest = false
		return
	}
	p.watch(ctx, r)
}

// watch asks the backend for hints. One that fails, or does not answer within
// StoreTimeout, is not asked again: polling goes on without it.
func (p *poller) watch(ctx context.Context, r *request) {
	watcher, ok := driver.As[driver.Watcher](r.store.b)
	if !ok || p.never {
		return
	}
	ctx, p.cancel = context.WithCancel(ctx)
	bound := time.AfterFunc(r.store.opts.StoreTimeout, p.cancel)
	hint, err := watcher.Watch(ctx, r.stored)
	if !bound.Stop() || err != nil {
		p.never = true
		p.stopHints()
		return
	}
	p.hint = hint
}

// hinted notes that a hint came. Only after the next poll hints are asked for
// anew: a backend that hints without end is not asked without end.
func (p *poller) hinted() {
	p.stopHints()
	p.rest = true
}

// due is when the next poll is; nil if none is planned.
func (p *poller) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p *poller) stop() {
	p.stopTimer()
	p.stopHints()
}

func (p *poller) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *poller) stopHints() {
	if p.cancel != nil {
		p.cancel()
	}
	p.cancel, p.hint = nil, nil
}
