package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/pgstore"
)

var errDeclined = errors.New("declined")

func TestEffectAndOutcomeCommitTogether(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		s := l.store(t)
		res, err := c.execute(t.Context(), s, c.name, l.pay(c.name))
		require.NoError(t, err, c.name)
		require.Equal(t, "paid "+c.name, string(res.Value))
		require.False(t, res.Replayed)
		require.Equal(t,
			value[string](t, l.place, l.pool, "SELECT xmin::text FROM "+l.effects+" WHERE what = $1", c.name),
			value[string](t, l.place, l.pool, "SELECT xmin::text FROM {records} WHERE key = $1", join(c.name)), "one transaction")
		for range 2 {
			res, err = c.execute(t.Context(), l.store(t), c.name, l.pay(c.name))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			require.Equal(t, "paid "+c.name, string(res.Value))
		}
		res, err = s.Execute(t.Context(), c.name, func(context.Context) (idem.Result, error) { return idem.Result{}, errDeclined })
		require.NoError(t, err, "Execute replays what ExecuteTx recorded")
		require.True(t, res.Replayed)
		require.Equal(t, 1, l.happened(t, c.name))
	}
}

// What an operation does is undone, however it fails; what becomes of the key is
// as for Execute.
func TestAFailureUndoesTheEffectAndSettlesTheKey(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		for name, how := range map[string]struct {
			err   error
			opts  []idem.ExecuteOption
			state driver.State
			doubt bool
			held  bool
		}{
			"permanent":   {err: idem.Permanent(errDeclined), state: driver.Failed},
			"plain":       {err: errDeclined, state: driver.Released, doubt: true},
			"not applied": {err: idem.NotApplied(errDeclined), state: driver.Released},
			"unknown":     {err: idem.Unknown(errDeclined), state: driver.Unknown, doubt: true, held: true},
			"under Hold":  {err: errDeclined, opts: []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}, state: driver.Unknown, doubt: true, held: true},
		} {
			s, key := l.store(t), c.name+"/"+name
			_, err := c.execute(t.Context(), s, key, func(_ context.Context, do do) (idem.Result, error) {
				require.NoError(t, do(l.insert(), key))
				return idem.Result{}, how.err
			}, how.opts...)
			require.ErrorIs(t, err, errDeclined, key)
			require.Zero(t, l.happened(t, key), key)
			rec, err := s.Inspect(t.Context(), key)
			require.NoError(t, err, key)
			require.Equal(t, []any{how.state, how.doubt, how.held, 1}, []any{rec.State, rec.Doubt, rec.Held, rec.Attempt}, key)
			res, err := c.execute(t.Context(), s, key, l.pay(key), how.opts...)
			switch how.state {
			case driver.Failed:
				require.ErrorIs(t, err, idem.ErrRecordedFailure)
				require.True(t, res.Replayed)
			case driver.Unknown:
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
			default:
				require.NoError(t, err)
				require.Equal(t, 1, l.happened(t, key))
			}
		}
	}
}

// The operation's own statement fails, and with it the transaction: the failure is
// recorded all the same, because the savepoint is from before.
func TestAPermanentFailureIsRecordedAfterAFailedStatement(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		_, err := c.execute(t.Context(), l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
			return idem.Result{}, idem.Permanent(do("SELECT 1/0"))
		})
		require.ErrorContains(t, err, "division by zero")
		_, err = c.execute(t.Context(), l.store(t), c.name, l.pay(c.name))
		require.ErrorIs(t, err, idem.ErrRecordedFailure, c.name)
	}
}

// An operation that swallows its statement's error has no effect, and must not be
// told that it has.
func TestAnAbortedTransactionIsNoSuccess(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		_, err := c.execute(t.Context(), l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
			_ = do(l.insert(), c.name)
			_ = do("SELECT 1/0")
			return idem.Result{Value: []byte("done")}, nil
		})
		require.ErrorIs(t, err, idem.ErrUnavailable, c.name)
		require.NotErrorIs(t, err, idem.ErrLeaseLost)
		require.ErrorContains(t, err, "25P02")
		require.Zero(t, l.happened(t, c.name))
		_, err = c.execute(t.Context(), l.store(t), c.name, l.pay(c.name))
		require.NoError(t, err, "the key is free")
	}
}

// A commit that the server refuses undoes everything, for certain.
func TestARefusedCommitIsNoSuccess(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.exec(t, l.pool, "ALTER TABLE "+l.effects+" ADD CONSTRAINT once UNIQUE (what) DEFERRABLE INITIALLY DEFERRED")
	for _, c := range txClients(l.pool) {
		_, err := c.execute(t.Context(), l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
			return idem.Result{}, errors.Join(do(l.insert(), c.name), do(l.insert(), c.name))
		})
		require.ErrorIs(t, err, idem.ErrUnavailable, c.name)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "23505", pg.Code)
		require.Zero(t, l.happened(t, c.name))
		_, err = c.execute(t.Context(), l.store(t), c.name, l.pay(c.name))
		require.NoError(t, err, "the key is free")
	}
}

func TestAPanicUndoesTheEffect(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		require.PanicsWithValue(t, "boom", func() {
			_, _ = c.execute(t.Context(), l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
				require.NoError(t, do(l.insert(), c.name))
				panic("boom")
			})
		})
		require.Zero(t, l.happened(t, c.name))
		_, err := c.execute(t.Context(), l.store(t), c.name, l.pay(c.name))
		require.NoError(t, err)
	}
	require.Zero(t, l.pool.Stat().AcquiredConns())
}

// The caller goes away while a statement of the operation runs.
func TestACancelledOperationLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.execute(ctx, l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
			require.NoError(t, do(l.insert(), c.name))
			time.AfterFunc(50*time.Millisecond, cancel)
			return idem.Result{}, do("SELECT pg_sleep(30)")
		})
		require.ErrorIs(t, err, context.Canceled, c.name)
		require.Zero(t, l.happened(t, c.name))
		_, err = c.execute(t.Context(), l.store(t), c.name, l.pay(c.name), idem.WithWait(patience))
		require.NoError(t, err)
		require.Equal(t, 1, l.happened(t, c.name))
	}
}

// A connection that is gone has undone the effect; a key that is to be held is
// held all the same, because the operation may have had another one elsewhere.
func TestAHeldKeyIsHeldAlthoughTheTransactionIsGone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		s := l.store(t)
		_, err := c.execute(t.Context(), s, c.name, func(_ context.Context, do do) (idem.Result, error) {
			require.NoError(t, do(l.insert(), c.name))
			return idem.Result{}, idem.Unknown(do("SELECT pg_terminate_backend(pg_backend_pid())"))
		})
		require.ErrorIs(t, err, idem.ErrOutcomeUnknown, c.name)
		require.Zero(t, l.happened(t, c.name))
		rec, err := s.Inspect(t.Context(), c.name)
		require.NoError(t, err)
		require.Equal(t, []any{driver.Unknown, true}, []any{rec.State, rec.Held})
	}
}

// Execute and ExecuteTx of one key exclude each other, in one process and in two.
func TestOneKeyRunsInOneOfTheTwoModesAtATime(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		here, there := l.store(t), l.store(t)
		key := c.name
		_, err := c.execute(t.Context(), here, key, func(ctx context.Context, do do) (idem.Result, error) {
			for name, s := range map[string]*idem.Store{"same process": here, "other process": there} {
				began := time.Now()
				_, err := s.Execute(t.Context(), key, plain("second"))
				require.ErrorIs(t, err, idem.ErrInProgress, name)
				_, err = c.execute(t.Context(), s, key, l.pay("second"))
				require.ErrorIs(t, err, idem.ErrInProgress, name)
				require.Less(t, time.Since(began), 3*patience)
			}
			_, err := c.execute(ctx, here, key, l.pay("second"), idem.WithWait(time.Hour))
			require.ErrorIs(t, err, idem.ErrInProgress, "itself")
			return idem.Result{Value: []byte("first")}, do(l.insert(), key)
		})
		require.NoError(t, err)
		require.Zero(t, l.happened(t, "second"))

		key += "/reverse"
		_, err = here.Execute(t.Context(), key, func(context.Context) (idem.Result, error) {
			for name, s := range map[string]*idem.Store{"same process": here, "other process": there} {
				_, err := c.execute(t.Context(), s, key, l.pay("second"))
				require.ErrorIs(t, err, idem.ErrInProgress, name)
			}
			return idem.Result{Value: []byte("first")}, nil
		})
		require.NoError(t, err)
		require.Zero(t, l.happened(t, "second"))
	}
}

func plain(v string) idem.Op {
	return func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte(v)}, nil }
}

// A duplicate waits for the transaction, up to its own bound, and replays.
func TestADuplicateWaitsForTheTransaction(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		running, finish := make(chan struct{}), make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := c.execute(t.Context(), l.store(t), c.name, func(ctx context.Context, do do) (idem.Result, error) {
				close(running)
				if err := hold(ctx, finish); err != nil {
					return idem.Result{}, err
				}
				return idem.Result{Value: []byte("first")}, do(l.insert(), c.name)
			})
			first <- err
		}()
		receive(t, running, "the first one's beginning")
		began := time.Now()
		_, err := c.execute(t.Context(), l.store(t), c.name, l.pay("second"), idem.WithWait(50*time.Millisecond))
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.Less(t, time.Since(began), patience)
		time.AfterFunc(300*time.Millisecond, func() { close(finish) })
		res, err := c.execute(t.Context(), l.store(t), c.name, l.pay("second"), idem.WithWait(time.Minute))
		require.NoError(t, err)
		require.True(t, res.Replayed)
		require.Equal(t, "first", string(res.Value))
		require.NoError(t, receive(t, first, "the first one's end"))
		require.Equal(t, []int{1, 0}, []int{l.happened(t, c.name), l.happened(t, "second")})
	}
}

func TestATransactionElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	memory, err := idem.New(memstore.New(nil), nil)
	require.NoError(t, err)
	for _, c := range txClients(l.pool) {
		_, err = c.execute(t.Context(), memory, "k", l.pay("k"))
		require.ErrorIs(t, err, idem.ErrInvalidOption, c.name)
	}
	name := "idem_test_" + testenv.Random(8)
	testenv.PostgresExec(t, l.url, "CREATE DATABASE "+name)
	t.Cleanup(func() { testenv.PostgresExec(t, l.url, "DROP DATABASE "+name+" WITH (FORCE)") })
	other := l.place.pool(t, database(name))
	for _, there := range []string{"without the table", "with the table"} {
		if there == "with the table" {
			l.exec(t, other, "CREATE SCHEMA "+l.schema)
			require.NoError(t, l.backend(t, other).Migrate(t.Context()))
		}
		for _, c := range txClients(other) {
			_, err = c.execute(t.Context(), l.store(t), "k", l.pay("k"))
			require.ErrorIs(t, err, pgstore.ErrOtherDatabase, c.name+" "+there)
			require.ErrorIs(t, err, idem.ErrUnavailable)
		}
	}
	require.Zero(t, l.happened(t, "k"))
	require.Zero(t, value[int64](t, l.place, other, "SELECT count(*) FROM {records}"))
}

// A record of the same key in another database is no answer: neither its outcome
// nor its claim.
func TestATransactionElsewhereIsNotAnsweredByTheTableThere(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	name := "idem_test_" + testenv.Random(8)
	testenv.PostgresExec(t, l.url, "CREATE DATABASE "+name)
	t.Cleanup(func() { testenv.PostgresExec(t, l.url, "DROP DATABASE "+name+" WITH (FORCE)") })
	other := l.place.pool(t, database(name))
	l.exec(t, other, "CREATE SCHEMA "+l.schema)
	require.NoError(t, l.backend(t, other).Migrate(t.Context()))
	there := storeOver(t, l.backend(t, other), nil)
	_, err := there.Execute(t.Context(), "done", plain("another's"))
	require.NoError(t, err)
	claim, err := there.Claim(t.Context(), "busy", time.Hour)
	require.NoError(t, err)
	for _, c := range txClients(other) {
		for _, key := range []string{"done", "busy"} {
			_, err := c.execute(t.Context(), l.store(t), key, l.pay(key))
			require.ErrorIs(t, err, pgstore.ErrOtherDatabase, c.name+" "+key)
			require.ErrorIs(t, err, idem.ErrUnavailable)
			require.Zero(t, l.happened(t, key))
		}
	}
	require.NoError(t, there.Release(t.Context(), claim))
}

// Once the Store is checked, a transaction of the caller's needs no connection but
// its own, from the first call on (C16).
func TestTheFirstTransactionOfACallerNeedsNoSecondConnection(t *testing.T) {
	t.Parallel()
	l := newLedger(t, conns(1))
	s := l.store(t)
	require.True(t, driver.OnlyWarnings(s.Check(t.Context())))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, err := l.pool.Begin(ctx)
	require.NoError(t, err)
	res, err := pgstore.ExecuteInTx(ctx, s, tx, "k", func(context.Context, pgx.Tx) (idem.Result, error) {
		return idem.Result{Value: []byte("7")}, nil
	})
	require.NoError(t, err)
	require.Equal(t, "7", string(res.Value))
	require.NoError(t, tx.Commit(ctx))
}

// No call takes a second connection while it holds one (C16).
func TestATransactionNeedsOneConnection(t *testing.T) {
	t.Parallel()
	l := newLedger(t, conns(1))
	for _, c := range txClients(l.pool) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for range 2 {
			_, err := c.execute(ctx, l.store(t), c.name, l.pay(c.name))
			require.NoError(t, err, c.name)
		}
		cancel()
	}
}

// The settings of the operation's transaction are its own.
func TestTheLockTimeoutOfTheTransactionStays(t *testing.T) {
	t.Parallel()
	l := newLedger(t, func(c *poolConfig) { c.ConnConfig.RuntimeParams["lock_timeout"] = "4321" })
	for _, c := range txClients(l.pool) {
		_, err := c.execute(t.Context(), l.store(t), c.name, func(_ context.Context, do do) (idem.Result, error) {
			return idem.Result{}, do("SELECT 1/(CASE WHEN current_setting('lock_timeout') = '4321ms' THEN 1 ELSE 0 END)")
		})
		require.NoError(t, err, c.name)
	}
}

// A recovery that says "not executed" is part of the transaction, and survives a
// failure of the operation that it lets run.
func TestARecoveryRunsBeforeTheOperation(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, c := range txClients(l.pool) {
		s := l.store(t)
		_, err := s.Execute(t.Context(), c.name, func(context.Context) (idem.Result, error) { return idem.Result{}, idem.Unknown(errDeclined) })
		require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
		recovers := idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) { return idem.NotExecuted(), nil })
		_, err = c.execute(t.Context(), s, c.name, func(_ context.Context, do do) (idem.Result, error) {
			require.NoError(t, do(l.insert(), c.name))
			return idem.Result{}, idem.NotApplied(errDeclined)
		}, recovers)
		require.ErrorIs(t, err, errDeclined)
		rec, err := s.Inspect(t.Context(), c.name)
		require.NoError(t, err)
		require.Equal(t, []any{driver.Released, false, false}, []any{rec.State, rec.Doubt, rec.Held}, c.name)
		_, err = c.execute(t.Context(), s, c.name, l.pay(c.name), recovers)
		require.NoError(t, err)
		require.Equal(t, 1, l.happened(t, c.name))
	}
}
