package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/driver"
)

// querier is what a statement is sent with.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// link is how the steps of a record reach the server: each in a transaction of
// its own, or all in one that somebody else commits.
type link interface {
	// ask sends a statement that answers with at most one record.
	ask(ctx context.Context, sql string, r *row, args ...any) (found bool, err error)
	// write is ask for a claim's write, whose waits for other transactions are
	// bounded. The bound becomes its seventh argument.
	write(ctx context.Context, sql string, r *row, wait time.Duration, args ...any) (found bool, err error)
	// affect sends a statement that changes one record at most, and reports
	// whether it did.
	affect(ctx context.Context, sql string, args ...any) (bool, error)
	// blocked answers a claim that waited too long.
	blocked(ctx context.Context, a *attempt) (*driver.ClaimResult, error)
}

// pool sends each statement by itself, in a transaction of its own. A statement
// that the server took back because of another transaction is sent again.
type pool struct{ q querier }

const repeats = 8

func (l *pool) ask(ctx context.Context, sql string, r *row, args ...any) (bool, error) {
	return again(func() (bool, error) { return one(ctx, l.q, sql, r.dest(), args) })
}

func (l *pool) write(ctx context.Context, sql string, r *row, wait time.Duration, args ...any) (bool, error) {
	return l.ask(ctx, sql, r, insertWait(args, wait)...)
}

// insertWait makes the bound of a wait the seventh argument, after what a new
// claim has.
func insertWait(args []any, wait time.Duration) []any {
	return slices.Insert(args, 6, any(millis(wait)))
}

func (l *pool) affect(ctx context.Context, sql string, args ...any) (bool, error) {
	return again(func() (bool, error) { return one(ctx, l.q, sql, nil, args) })
}

func (l *pool) blocked(ctx context.Context, a *attempt) (*driver.ClaimResult, error) {
	return a.inProgress(ctx)
}

// again repeats a statement while that makes sense.
func again(send func() (bool, error)) (found bool, err error) {
	for range repeats {
		if found, err = send(); err == nil || !repeatable(err) && !unprepared(err) {
			break
		}
	}
	return found, err
}

// unprepared: what the connection had prepared is not valid any more, because a
// column has another type or the session was reset (C44). The client has dropped it,
// so that the statement is prepared anew; nothing was applied.
func unprepared(err error) bool {
	code := sqlState(err)
	return code == statePlanChanged || code == stateNoStatement
}

// one sends a statement and reads the first row of its answer; nil dest only
// asks whether there is one.
func one(ctx context.Context, q querier, sql string, dest, args []any) (found bool, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if rows.Next() {
		found = true
		if dest != nil {
			err = rows.Scan(dest...)
		}
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	return found, err
}

// ended returns what ended ctx, or nil. The error matches the cause and
// ctx.Err(), and no sentinel of package driver.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("pgstore: not begun: %w", cause)
	}
	return fmt.Errorf("pgstore: not begun: %w: %w", err, cause)
}
