package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/idem-go/idem/driver"
)

// bound is a Backend inside one transaction, for one call of the engine.
//
//	idle ──Claim acquires──► open ──Complete, Release──► done
//	  ▲          │             │           └── COMMIT unanswered ──► asking ──► done
//	  └──────────┘             └── any error before COMMIT ──► undone ◄── asking
//
// In the caller's transaction the savepoint idem_claim stands for its beginning,
// and nothing is committed. In both, idem_op is set after the claim: the
// operation's effect can be undone without losing the claim.
//
// The engine makes one call at a time, except that a renewal may come while the
// operation runs, and a SaveRef from the operation itself; and a claim that it gives
// up is released in the background, which may be after Execute has returned: by then
// the transaction is rolled back, and if it is the caller's, in use again.
type bound struct {
	b     *Backend
	begin func(ctx context.Context) (txn, error) // nil: the transaction is the caller's

	turn sync.Mutex // held while the transaction is used
	tx   txn        // nil: none is open

	closed   bool               // Execute has returned
	saved    bool               // idem_claim is set
	params   driver.ClaimParams // of the claim that stands
	id       identity           // of the transaction
	recorded bool               // an outcome is

	mu    sync.Mutex // guards the fields below
	phase phase
	cause error // why it is undone
}

type phase uint8

const (
	idle phase = iota
	open
	asking
	done
	undone
)

// owning is bound in a transaction of its own. Everything but the six methods is
// the Backend's: no connection is held while those are called.
type owning struct{ *bound }

// Unwrap implements [driver.Unwrapper].
func (o owning) Unwrap() driver.Backend { return o.b }

// joining is bound in the caller's transaction. It is no Watcher: that would take
// a second connection while the caller holds one (C16).
type joining struct{ *bound }

// Check implements [driver.Checker].
func (j joining) Check(ctx context.Context) error { return j.b.Check(ctx) }

// DefaultRetention implements [driver.Retainer].
func (j joining) DefaultRetention() time.Duration { return j.b.retention }

// The savepoints.
const (
	saveClaim    = "SAVEPOINT idem_claim"
	undoClaim    = "ROLLBACK TO SAVEPOINT idem_claim"
	releaseClaim = "RELEASE SAVEPOINT idem_claim"
	saveOp       = "SAVEPOINT idem_op"
	undoOp       = "ROLLBACK TO SAVEPOINT idem_op"
)

func (t *bound) enter(p phase, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase, t.cause = p, cause
}

func (t *bound) now() phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// undone returns why the transaction was rolled back against the engine's will;
// nil if it was not.
func (t *bound) undone() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != undone {
		return nil
	}
	return t.cause
}

// Claim implements [driver.Backend]. A claim that does not acquire leaves no
// transaction open, or the caller's as it was.
func (t *bound) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if err := errors.Join(ended(ctx), checkClaim(p)); err != nil {
		return nil, err
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.closed {
		return nil, fmt.Errorf("pgstore: %w: the transaction has ended", driver.ErrUnavailable)
	}
	if t.begin != nil && t.b.met.Has(p.Key) {
		if res, ok := t.b.shortcut(ctx, p); ok {
			return res, nil
		}
	}
	for try := 1; ; try++ {
		home, err := t.b.home(ctx)
		if err != nil {
			return nil, fail(ctx, err)
		}
		res, err := t.claim(ctx, p, home)
		again := t.begin != nil && (repeatable(err) || unprepared(err)) || try == 1 && errors.Is(err, ErrOtherDatabase)
		if !again || try == repeats {
			return res, err
		}
	}
}

// claim is one try, in a transaction of its own or under a savepoint.
func (t *bound) claim(ctx context.Context, p *driver.ClaimParams, home location) (res *driver.ClaimResult, err error) {
	if t.begin != nil {
		tx, err := t.begin(ctx)
		if err != nil {
			return nil, fail(ctx, err)
		}
		t.tx = tx
	}
	t.id = identity{}
	a := attempt{b: t.b, l: t, p: p}
	res, err = a.run(ctx)
	strayed := t.id.location != (location{}) && t.id.location != home
	switch {
	case strayed || sqlState(err) == stateNoTable: // whatever its table says
		res, err = nil, t.b.stray()
	case err == nil && (res.Fact == driver.Acquired || res.Fact == driver.TakenOver):
		t.keep(p)
		return res, nil
	}
	if failed := t.back(ctx); failed != nil && err == nil {
		return nil, fail(ctx, failed)
	}
	if errors.Is(err, errBlocked) {
		a.l = t.reader()
		return a.inProgress(ctx)
	}
	return res, err
}

// keep notes the claim that stands.
func (t *bound) keep(p *driver.ClaimParams) {
	t.params = *p
	t.params.Fingerprints, t.params.Providers = slices.Clone(p.Fingerprints), slices.Clone(p.Providers)
	t.enter(open, nil)
}

// reader is where to read when nothing is claimed.
func (t *bound) reader() link {
	if t.begin != nil {
		return t.b.pool
	}
	return t
}

// back undoes everything: the transaction, or what the caller's has had since
// idem_claim.
func (t *bound) back(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if t.begin != nil {
		tx := t.tx
		t.tx = nil
		if tx == nil {
			return nil
		}
		return tx.rollback(ctx)
	}
	if !t.saved {
		return nil
	}
	t.saved = false
	return errors.Join(t.tx.exec(ctx, undoClaim), t.tx.exec(ctx, releaseClaim))
}

// rollbackTimeout bounds what nobody waits for: closing the connection does the
// same.
const rollbackTimeout = 2 * time.Second

// errBlocked: the claim waited too long, and the statement's error has spoilt the
// transaction.
var errBlocked = fmt.Errorf("pgstore: another transaction holds the record: %w", driver.ErrUnavailable)

// blocked implements link.
func (t *bound) blocked(context.Context, *attempt) (*driver.ClaimResult, error) {
	return nil, errBlocked
}

// ask implements link.
func (t *bound) ask(ctx context.Context, sql string, r *row, args ...any) (bool, error) {
	return one(ctx, t.tx, sql, r.dest(), args)
}

// affect implements link.
func (t *bound) affect(ctx context.Context, sql string, args ...any) (bool, error) {
	return one(ctx, t.tx, sql, nil, args)
}

// write implements link: the bound of the wait must not outlive the statement,
// and idem_op comes after it.
func (t *bound) write(ctx context.Context, sql string, r *row, wait time.Duration, args ...any) (bool, error) {
	args = insertWait(args, wait)
	var before []string
	if t.begin == nil && !t.saved {
		before = []string{saveClaim}
		t.saved = true
	}
	return t.tx.claim(ctx, before, sql, r.dest(), args, &t.id)
}

// Renew implements [driver.Backend]. The transaction holds the key.
func (t *bound) Renew(ctx context.Context, _ driver.Ref, _ *driver.RenewParams) error {
	if t.now() != open {
		return errLeaseLost("the transaction has ended")
	}
	return ended(ctx)
}

// Annotate implements [driver.Backend], as a part of the transaction. A verdict
// "not executed" precedes the operation, and must survive that one's failure.
func (t *bound) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.now() != open {
		return errLeaseLost("the transaction has ended")
	}
	err := t.b.annotate(ctx, t, ref, p)
	if err == nil && p.NotExecuted {
		err = t.tx.exec(ctx, saveOp)
	}
	return err
}

// Inspect implements [driver.Backend].
func (t *bound) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	return t.b.Inspect(ctx, key)
}

// close ends what is still open when the engine has returned: nothing of it is
// promised to anybody. What comes later finds nothing claimed.
func (t *bound) close(ctx context.Context) {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.closed = true
	if p := t.now(); p == idle || p == open {
		_ = t.back(ctx) // a connection that cannot roll back is closed, which does it
		t.enter(idle, nil)
	}
}
