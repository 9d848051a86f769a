package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/driver"
)

// Complete implements [driver.Backend]: it records the outcome and commits. The
// effect of an operation that failed is undone before. It returns ErrLeaseLost if
// the transaction was rolled back.
func (t *bound) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	err := t.settle(ctx, p.Outcome.Failed, func() error { return t.b.complete(ctx, t, ref, p) })
	t.recorded = t.recorded || err == nil
	return err
}

// Release implements [driver.Backend]: it undoes the operation's effect, gives the
// claim up and commits. In the caller's transaction it undoes the claim too,
// except for a key that is to be held. A transaction that is gone has released
// the key already.
func (t *bound) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.now() == idle {
		return nil
	}
	if t.begin == nil && !p.Held && t.now() == open {
		return t.giveBack(ctx)
	}
	err := t.settle(ctx, true, func() error { return t.b.release(ctx, t, ref, p) })
	switch {
	case !errors.Is(err, driver.ErrLeaseLost):
		return err
	case p.Held:
		return t.holdOutside(ctx, p)
	}
	t.enter(done, nil)
	return nil
}

// giveBack leaves the caller's transaction as it was.
func (t *bound) giveBack(ctx context.Context) error {
	t.enter(done, nil)
	if err := t.back(ctx); err != nil {
		return fail(ctx, err)
	}
	return nil
}

// holdOutside holds the key although the transaction is gone: its effect is
// undone, but the operation may have had another one elsewhere.
func (t *bound) holdOutside(ctx context.Context, p *driver.ReleaseParams) error {
	res, err := t.b.Claim(ctx, &t.params)
	if err != nil {
		return err
	}
	if res.Fact != driver.Acquired && res.Fact != driver.TakenOver {
		return errLeaseLost("the transaction was rolled back, and the key is " + res.Fact.String())
	}
	ref := driver.Ref{Key: t.params.Key, Owner: t.params.Owner, Token: res.Record.Token}
	if err := t.b.Release(ctx, ref, p); err != nil {
		return err
	}
	t.enter(done, nil)
	return nil
}

// settle writes how the claim ended, and commits if the transaction is ours.
// Nothing of it can be applied before COMMIT is sent, so that only an error of
// the commit leaves anything open.
func (t *bound) settle(ctx context.Context, undo bool, write func() error) error {
	switch t.now() {
	case asking:
		return t.whatBecame(ctx)
	case done:
		return nil
	case open:
	case idle, undone:
		return errLeaseLost("the transaction was rolled back")
	}
	if undo {
		if err := t.tx.exec(ctx, undoOp); err != nil {
			return t.give(ctx, err)
		}
	}
	if err := write(); err != nil {
		return t.give(ctx, err)
	}
	if t.begin == nil {
		if err := t.tx.exec(ctx, releaseClaim); err != nil {
			return t.give(ctx, err)
		}
		t.enter(done, nil)
		return nil
	}
	return t.commit(ctx)
}

// give undoes everything because of cause.
func (t *bound) give(ctx context.Context, cause error) error {
	t.enter(undone, cause)
	_ = t.back(ctx) // a connection that cannot roll back is closed, which does it
	return fmt.Errorf("pgstore: %w: the transaction was rolled back: %w", driver.ErrLeaseLost, unnamed{cause})
}

func (t *bound) commit(ctx context.Context) error {
	err := t.tx.commit(ctx)
	tx := t.tx
	t.tx = nil
	switch {
	case err == nil:
		t.enter(done, nil)
		t.b.met.Add(t.params.Key)
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback) || refused(err):
		t.tx = tx
		return t.give(ctx, err)
	}
	t.enter(asking, err)
	rolling, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.rollback(rolling) // gives the broken connection back
	return t.whatBecame(ctx)
}

// whatBecame asks the server how the transaction ended whose commit got no
// answer (C10), until it has ended or ctx has.
func (t *bound) whatBecame(ctx context.Context) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		var status []byte
		_, err := one(ctx, t.b.db, "SELECT pg_catalog.pg_xact_status($1::pg_catalog.text::pg_catalog.xid8)", []any{&status}, []any{t.id.xid})
		switch {
		case err == nil && string(status) == "committed":
			t.enter(done, nil)
			return nil
		case err == nil && string(status) == "aborted":
			t.mu.Lock()
			defer t.mu.Unlock()
			t.phase = undone
			return fmt.Errorf("pgstore: %w: the transaction was rolled back: %w", driver.ErrLeaseLost, unnamed{t.cause})
		case ctx.Err() != nil:
			return fmt.Errorf("pgstore: what became of the commit is unknown: %w", errors.Join(unnamed{t.cause}, ctx.Err()))
		}
		// Still in progress, or the server is away: ask again.
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// unnamed hides the contract's sentinels in the error of a step inside a
// transaction: they speak of that step, and would lie about the transaction.
type unnamed struct{ err error }

func (u unnamed) Error() string { return u.err.Error() }

func (u unnamed) Is(target error) bool { return !driver.NoEffect(target) && errors.Is(u.err, target) }

func (u unnamed) As(target any) bool { return errors.As(u.err, target) }
