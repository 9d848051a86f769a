package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/tcpproxy"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/pgstore"
)

// through returns a connection string that leads through the proxy.
func through(tb testing.TB, proxy *tcpproxy.Proxy, target string) string {
	tb.Helper()
	u, err := url.Parse(target)
	require.NoError(tb, err)
	u.Host = proxy.Addr()
	return u.String()
}

func hostOf(tb testing.TB, target string) string {
	tb.Helper()
	u, err := url.Parse(target)
	require.NoError(tb, err)
	return u.Host
}

// counting is an operation that counts its runs.
func counting(n *atomic.Int64, v string) idem.Op {
	return func(context.Context) (idem.Result, error) {
		n.Add(1)
		return idem.Result{Value: []byte(v)}, nil
	}
}

// C10: the server applied a statement, and its acknowledgement is lost.
func TestALostAcknowledgementIsNoFailure(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, lost := range map[string]struct {
		match   string
		forward bool
	}{
		"claim applied": {"INSERT INTO", true}, "claim not applied": {"INSERT INTO", false},
		"outcome applied": {"outcome = $8", true}, "outcome not applied": {"outcome = $8", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := tcpproxy.New(t, hostOf(t, p.url))
			pool := p.poolAt(t, through(t, proxy, p.url), mode(pgx.QueryExecModeExec))
			s := storeOver(t, p.backend(t, pool), nil)
			require.NoError(t, s.Check(t.Context()))
			met := proxy.LoseRequest(lost.match)
			if lost.forward {
				met = proxy.LoseReply(lost.match)
			}
			var n atomic.Int64
			res, err := s.Execute(t.Context(), name, counting(&n, "7"))
			require.NoError(t, err)
			require.Equal(t, "7", string(res.Value))
			receive(t, met, "the loss")
			res, err = s.Execute(t.Context(), name, counting(&n, "8"))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			require.Equal(t, "7", string(res.Value))
			require.Equal(t, int64(1), n.Load())
			rec, err := s.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, 1, rec.Attempt)
		})
	}
}

// C10 for the commit of a transaction: it is settled by looking.
func TestAnAmbiguousCommitIsSettledByLooking(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, applied := range []bool{true, false} {
		proxy := tcpproxy.New(t, hostOf(t, l.url))
		for _, c := range txClients(l.poolAt(t, through(t, proxy, l.url))) {
			key := fmt.Sprintf("%s/%v", c.name, applied)
			var met <-chan struct{}
			res, err := c.execute(t.Context(), l.store(t), key, func(_ context.Context, do do) (idem.Result, error) {
				err := do(l.insert(), key)
				if applied {
					met = proxy.LoseReply("commit")
				} else {
					met = proxy.LoseRequest("commit")
				}
				return idem.Result{Value: []byte("paid")}, err
			})
			receive(t, met, "the loss")
			if applied {
				require.NoError(t, err, key)
				require.Equal(t, "paid", string(res.Value))
				require.Equal(t, 1, l.happened(t, key))
			} else {
				require.ErrorIs(t, err, idem.ErrUnavailable, key)
				require.NotErrorIs(t, err, idem.ErrNotRecorded)
				require.Zero(t, l.happened(t, key))
			}
			res, err = c.execute(t.Context(), l.store(t), key, l.pay(key))
			require.NoError(t, err)
			require.Equal(t, applied, res.Replayed)
			require.Equal(t, 1, l.happened(t, key))
		}
	}
}

// A commit that nobody can be asked about is not claimed to be known.
func TestACommitThatNobodyAnswersForIsNotRecorded(t *testing.T) {
	t.Parallel()
	s := testenv.OwnPostgres(t, testenv.PostgresConfig{})
	testenv.PostgresExec(t, s.URL(), "CREATE SCHEMA s")
	p := migrated(t, s.URL(), "s")
	pool := p.pool(t)
	store, err := idem.New(p.backend(t, pool), &idem.Options{RecordTimeout: time.Second, Observer: idem.Discard})
	require.NoError(t, err)
	proxy := tcpproxy.New(t, s.Addr())
	res, err := pgstore.ExecuteTx(t.Context(), store, p.poolAt(t, through(t, proxy, s.URL())), "k", func(context.Context, pgx.Tx) (idem.Result, error) {
		proxy.LoseReply("commit")
		go func() { _ = s.Stop() }()
		require.Eventually(t, func() bool { _, err := pgx.Connect(t.Context(), s.URL()); return err != nil }, 20*time.Second, time.Millisecond)
		return idem.Result{Value: []byte("paid")}, nil
	})
	require.Error(t, err)
	if errors.Is(err, idem.ErrNotRecorded) {
		require.Equal(t, "paid", string(res.Value))
	}
}

// A caller's transaction whose connection has gone silent is given up within a
// bound of our own: the operation's error comes back.
func TestATransactionOfTheCallerThatGoesSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	proxy := tcpproxy.New(t, hostOf(t, l.url))
	tx, err := l.poolAt(t, through(t, proxy, l.url)).Begin(t.Context())
	require.NoError(t, err)
	s := l.store(t)
	done := make(chan error, 1)
	go func() {
		_, err := pgstore.ExecuteInTx(t.Context(), s, tx, "k", func(context.Context, pgx.Tx) (idem.Result, error) {
			proxy.Stall()
			return idem.Result{}, errDeclined
		})
		done <- err
	}()
	require.ErrorIs(t, receive(t, done, "the end of the call"), errDeclined)
	proxy.Resume()
	require.Error(t, tx.Commit(t.Context()))
	require.Zero(t, value[int64](t, l.place, l.pool, "SELECT count(*) FROM {records}"))
}

// A server that does not answer is not waited for longer than the caller says, and
// the key is usable once it answers again, whatever became of the claim (C26).
func TestAServerThatStallsHoldsNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	proxy := tcpproxy.New(t, hostOf(t, p.url))
	s := storeOver(t, p.backend(t, p.poolAt(t, through(t, proxy, p.url))), &idem.Options{Lease: 3 * time.Second})
	var n atomic.Int64
	_, err := s.Execute(t.Context(), "warm", counting(&n, "x"))
	require.NoError(t, err)
	proxy.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = s.Execute(ctx, "k", counting(&n, "7"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), patience)
	require.Equal(t, int64(1), n.Load(), "it did not run")
	proxy.Resume()
	res, err := s.Execute(t.Context(), "k", counting(&n, "7"), idem.WithWait(patience))
	require.NoError(t, err)
	require.Equal(t, "7", string(res.Value))
	require.Equal(t, int64(2), n.Load())
}

// The server stops answering, or all connections are cut, while the operation runs:
// its effect has happened, and is not done again (C05, C10).
func TestAnOutcomeOutlivesAServerThatStallsOrCuts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, how := range []string{"cut", "stall", "stall past the bound"} {
		proxy := tcpproxy.New(t, hostOf(t, p.url))
		o := &idem.Options{OnUnknown: idem.Hold}
		if how == "stall past the bound" {
			o.RecordTimeout = 300 * time.Millisecond
		}
		s := storeOver(t, p.backend(t, p.poolAt(t, through(t, proxy, p.url))), o)
		var n atomic.Int64
		res, err := s.Execute(t.Context(), how, func(context.Context) (idem.Result, error) {
			n.Add(1)
			if how == "cut" {
				proxy.Cut()
			} else {
				proxy.Stall()
			}
			if how == "stall" {
				time.AfterFunc(200*time.Millisecond, proxy.Resume)
			}
			return idem.Result{Value: []byte("7")}, nil
		})
		require.Equal(t, "7", string(res.Value), how)
		if how == "stall past the bound" {
			require.ErrorIs(t, err, idem.ErrNotRecorded)
			proxy.Resume()
		} else {
			require.NoError(t, err, how)
		}
		res, err = storeOver(t, p.backend(t, p.pool(t)), o).Execute(t.Context(), how, counting(&n, "8"))
		if how == "stall past the bound" && err != nil { // the outcome did not arrive: held for its claim
			require.ErrorIs(t, err, idem.ErrInProgress)
		} else {
			require.NoError(t, err, how)
			require.Equal(t, "7", string(res.Value))
		}
		require.Equal(t, int64(1), n.Load(), how)
	}
}

// raise makes the table's writes of one kind fail with a chosen SQLSTATE, n times.
func (p place) raise(t *testing.T, pool querier, when, code string, n int) {
	t.Helper()
	schema := pgx.Identifier{p.schema}.Sanitize()
	action := "RAISE EXCEPTION 'on purpose' USING ERRCODE = '" + code + "'"
	if code == "terminate" {
		action = "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1)"
	}
	p.exec(t, pool, "CREATE SEQUENCE "+schema+".raised")
	p.exec(t, pool, "CREATE FUNCTION "+schema+".raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"+
		" IF nextval('"+schema+".raised') <= "+fmt.Sprint(n)+" THEN "+action+"; END IF; RETURN NEW; END $$")
	p.exec(t, pool, "CREATE TRIGGER raise BEFORE "+when+" EXECUTE FUNCTION "+schema+".raise()")
}

// Whatever the server says of a statement, the operation runs once, and its
// outcome is recorded in the end.
func TestAStatementThatFailsOnceIsNotTheEnd(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01", "53100", "57014", "23514", "P0001", "XX000", "terminate"} {
		for at, when := range map[string]string{
			"claim": "INSERT ON {records} FOR EACH ROW", "outcome": "UPDATE ON {records} FOR EACH ROW WHEN (NEW.state = 3)",
		} {
			t.Run(code+" at the "+at, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				pool := p.pool(t)
				p.raise(t, pool, when, code, 1)
				s := storeOver(t, p.backend(t, pool), nil)
				var n atomic.Int64
				res, err := s.Execute(t.Context(), "k", counting(&n, "7"))
				if err != nil {
					require.Equal(t, "claim", at)
					require.ErrorIs(t, err, idem.ErrUnavailable)
					require.Zero(t, n.Load())
					res, err = s.Execute(t.Context(), "k", counting(&n, "7"))
				}
				require.NoError(t, err)
				require.Equal(t, "7", string(res.Value))
				require.Equal(t, int64(1), n.Load())
			})
		}
	}
}

// refusing is a database that answers nothing but one error.
type refusing struct{ err error }

func (r refusing) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, r.err }
func (r refusing) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)  { return nil, r.err }
func fatal(severity, code string) error {
	return &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "on purpose"}
}

// I8: only what certainly was not applied is called so.
func TestOnlyCertainRefusalsAreCalledUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		certain bool
	}{
		{fatal("ERROR", "53100"), true},
		{fatal("ERROR", "25006"), true},
		{fatal("ERROR", "57014"), true},
		{fatal("ERROR", "P0001"), true},
		{fatal("FATAL", "53300"), true},
		{fatal("FATAL", "57P03"), true},
		{fatal("FATAL", "28P01"), true},
		{fatal("FATAL", "3D000"), true},
		{fatal("FATAL", "57P01"), false},
		{fatal("FATAL", "57P02"), false},
		{fatal("FATAL", "08P01"), false},
		{fatal("PANIC", "53100"), false},
		{errors.New("connection reset by peer"), false},
		{context.DeadlineExceeded, false},
		{&pgconn.ConnectError{}, true},
	} {
		var connect *pgconn.ConnectError
		if errors.As(c.err, &connect) {
			_, c.err = pgx.Connect(t.Context(), "postgres://u:canary@127.0.0.1:1/d?connect_timeout=2")
		}
		b, err := pgstore.New(refusing{c.err}, nil)
		require.NoError(t, err)
		ref := driver.Ref{Key: "k", Owner: driver.Owner{1}, Token: 1}
		_, claim := b.Claim(t.Context(), &driver.ClaimParams{Key: "k", Owner: driver.Owner{1}, Lease: time.Second, Retention: time.Hour, Take: driver.TakeAbsent})
		_, inspect := b.Inspect(t.Context(), "k")
		_, list := b.List(t.Context(), &driver.ListParams{})
		_, purge := b.Purge(t.Context(), &driver.PurgeParams{})
		for name, err := range map[string]error{
			"Claim": claim, "Inspect": inspect, "List": list, "Purge": purge,
			"Renew":    b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Second, Retention: time.Hour}),
			"Annotate": b.Annotate(t.Context(), ref, &driver.AnnotateParams{}),
			"Complete": b.Complete(t.Context(), ref, &driver.CompleteParams{Retention: time.Hour}),
			"Release":  b.Release(t.Context(), ref, &driver.ReleaseParams{Retention: time.Hour}),
			"Redact":   b.Redact(t.Context(), "k", &driver.EditParams{Token: 1}),
			"Reset":    b.Reset(t.Context(), "k", &driver.EditParams{Token: 1, Retention: time.Hour}),
		} {
			require.ErrorIs(t, err, c.err, name)
			require.Equal(t, c.certain, errors.Is(err, driver.ErrUnavailable), "%s: %v", name, err)
			require.Equal(t, c.certain, driver.NoEffect(err), "%s: %v", name, err)
		}
	}
}

// K14.
func TestNoErrorContainsThePassword(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry-passw0rd"
	addr := hostOf(t, testenv.Postgres(t))
	proxy := tcpproxy.New(t, addr)
	proxy.Stall()
	for name, target := range map[string]string{
		"wrong host":     "postgres://postgres:" + canary + "@127.0.0.1:1/postgres",
		"wrong password": "postgres://postgres:" + canary + "@" + addr + "/postgres?sslmode=disable",
		"wrong database": strings.Replace(testenv.Postgres(t), "/postgres?", "/nowhere?", 1),
		"time-out":       "postgres://postgres:" + canary + "@" + proxy.Addr() + "/postgres?sslmode=disable",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, target)
			b, err := pgstore.New(pool, nil)
			require.NoError(t, err)
			s, err := idem.New(b, &idem.Options{StoreTimeout: 500 * time.Millisecond})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, execute := s.Execute(t.Context(), "k", plain("x"))
			require.ErrorIs(t, execute, idem.ErrUnavailable)
			_, tx := pgstore.ExecuteTx(t.Context(), s, pool, "k", func(context.Context, pgx.Tx) (idem.Result, error) { return idem.Result{}, nil })
			_, inspect := s.Inspect(t.Context(), "k")
			for _, err := range []error{execute, tx, inspect, s.Check(t.Context()), b.Migrate(ctx), b.Validate(ctx)} {
				require.Error(t, err)
				require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), canary)
				require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), testenv.PostgresPassword)
			}
		})
	}
}
