package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// Beginner begins transactions: a *pgxpool.Pool or a *pgx.Conn. Wrap one to
// choose another isolation level.
type Beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// ErrOtherDatabase says that a transaction is in another database than the
// records of the Store.
var ErrOtherDatabase = errors.New("the transaction is in another database than the records")

// ExecuteTx is [idem.Store.Execute] for an operation whose effect is in the
// database that holds the records: claim, effect and outcome commit together or
// not at all, with one commit.
//
// It begins a transaction on db, claims the key in it, runs op under a savepoint,
// records the outcome, and commits. Until then nobody else can claim the key,
// here or with Execute: others wait, for Options.LockWait or as long as WithWait
// allows, and then get the replay or [idem.ErrInProgress]. How op may end, and
// what the next call then finds, is as for Execute, with this difference: unless
// op returns a result, what it did to tx is undone, before its failure is
// recorded (Permanent) or the key given up.
//
// op must not commit or roll back tx; it may use savepoints. A tx whose
// transaction has failed commits nothing, whatever op returns: ExecuteTx then
// returns [idem.ErrUnavailable] and the server's error. It does the same if the
// commit fails for certain (a deferred constraint, a serialization failure). If
// the acknowledgement of the commit is lost, ExecuteTx asks the server what became
// of it, for up to idem.Options.RecordTimeout, and returns [idem.ErrNotRecorded],
// beside the result, if it cannot find out.
//
// There is nothing to renew: the transaction holds the key as long as it lives.
// MaxRun bounds it all the same. [idem.Claim.SaveRef] is part of the transaction,
// so that a reference is kept only if that commits.
//
// The Store's backend, or one that it wraps, must be a [Backend] whose table is in
// the database of db; else ExecuteTx returns [idem.ErrInvalidOption] or
// [ErrOtherDatabase]. A fast tier before it is written after the commit only. ctx is
// as for Execute.
func ExecuteTx(ctx context.Context, s *idem.Store, db Beginner, key string,
	op func(ctx context.Context, tx pgx.Tx) (idem.Result, error), opts ...idem.ExecuteOption,
) (idem.Result, error) {
	b, err := backendOf(s, "ExecuteTx", db == nil || op == nil)
	if err != nil {
		return idem.Result{}, err
	}
	t := &bound{b: b, begin: func(ctx context.Context) (txn, error) {
		tx, err := db.BeginTx(ctx, pgx.TxOptions{})
		if err != nil {
			return nil, err
		}
		return &pgxTxn{tx}, nil
	}}
	return t.execute(ctx, s, owning{t}, key, pgxOp(op), opts)
}

// ExecuteInTx is ExecuteTx inside a transaction that the caller has begun and is
// going to commit: claim, effect and outcome become part of it. Until the caller
// commits, nothing of it counts; a commit that fails undoes it, and one whose
// acknowledgement is lost is settled by calling again, in a new transaction.
//
// When ExecuteInTx returns an error, tx is as usable as it was before the call:
// what op and the claim did is undone. Two failures leave something to commit: one
// marked Permanent is recorded, and one that holds the key (Unknown, or under
// Hold) holds it. Roll back, and the key is as if there had been no call. A tx that
// is broken cannot hold the key: then it is held outside, through the Store's own
// client.
//
// At REPEATABLE READ and above the claim may fail with SQLSTATE 40001, beside
// [idem.ErrUnavailable], when the record is newer than the transaction's
// snapshot: begin a new one.
//
// The connection of tx is the only one that is used, but for the first call with
// a Store, which asks what [idem.Store.Check] asks, and where the table is: call
// Check before, or keep one connection free. A fast tier before the table learns the
// outcome when somebody asks for it.
func ExecuteInTx(ctx context.Context, s *idem.Store, tx pgx.Tx, key string,
	op func(ctx context.Context, tx pgx.Tx) (idem.Result, error), opts ...idem.ExecuteOption,
) (idem.Result, error) {
	b, err := backendOf(s, "ExecuteInTx", tx == nil || op == nil)
	if err != nil {
		return idem.Result{}, err
	}
	t := &bound{b: b, tx: &pgxTxn{tx}}
	return t.execute(ctx, s, joining{t}, key, pgxOp(op), opts)
}

// backendOf finds the pgstore in a Store's chain of backends.
func backendOf(s *idem.Store, name string, missing bool) (*Backend, error) {
	if s == nil || missing {
		return nil, fmt.Errorf("pgstore: %w: %s: the Store, the client or the operation is nil", idem.ErrInvalidOption, name)
	}
	b, ok := driver.As[*Backend](s.Backend())
	if !ok {
		return nil, fmt.Errorf("pgstore: %w: %s: the Store keeps its records elsewhere", idem.ErrInvalidOption, name)
	}
	return b, nil
}

// boundOp is an operation that works on a transaction of any client.
type boundOp func(ctx context.Context, tx txn) (idem.Result, error)

func pgxOp(op func(ctx context.Context, tx pgx.Tx) (idem.Result, error)) boundOp {
	return func(ctx context.Context, tx txn) (idem.Result, error) {
		p, ok := tx.(*pgxTxn)
		if !ok {
			panic("bug: the transaction is another client's")
		}
		return op(ctx, lentTx{p.Tx})
	}
}

// lentTx is the operation's transaction, which is not the operation's to end.
type lentTx struct{ pgx.Tx }

var errNotYours = errors.New("pgstore: the transaction is committed, or rolled back, when the operation has returned")

func (lentTx) Commit(context.Context) error   { return errNotYours }
func (lentTx) Rollback(context.Context) error { return errNotYours }

// refresh lets fast tiers before the table take a copy of what is recorded, once it
// is committed.
func (t *bound) refresh(ctx context.Context, chain driver.Backend) {
	if tiers, ok := driver.As[driver.Refresher](chain); ok && t.recorded && t.begin != nil {
		tiers.Refresh(context.WithoutCancel(ctx), t.params.Key)
	}
}

// execute runs the engine over the bound backend, and tells what became of the
// transaction where the engine cannot know.
func (t *bound) execute(ctx context.Context, s *idem.Store, view driver.Backend, key string, op boundOp, opts []idem.ExecuteOption) (idem.Result, error) {
	defer t.refresh(ctx, s.Backend())
	defer t.close(ctx)
	var failed error
	res, err := s.WithBackend(view).Execute(ctx, key, func(ctx context.Context) (idem.Result, error) {
		res, err := op(ctx, t.tx)
		failed = err
		return res, err
	}, opts...)
	cause := t.undone()
	if cause == nil || err == nil {
		return res, err
	}
	if failed != nil { // its failure could not be recorded
		return idem.Result{}, fmt.Errorf("pgstore: %w: nothing is recorded, the transaction was rolled back: %w: after the operation's error: %w",
			idem.ErrUnavailable, cause, failed)
	}
	return idem.Result{}, fmt.Errorf("pgstore: %w: nothing happened, the transaction was rolled back: %w", idem.ErrUnavailable, cause)
}
