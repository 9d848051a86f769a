package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/storetest"
)

func BenchmarkBackend(b *testing.B) {
	p := newPlace(b)
	storetest.Bench(b, p.harness(p.pool(b)))
}

// side is one of two ways to do the same, that are timed in turns: only their
// ratio means anything on a machine that others use.
type side struct {
	name string
	step func(ctx context.Context, i int) error
	took []time.Duration
}

// median of what a step took: others use the machine too.
func (s *side) median() time.Duration {
	slices.Sort(s.took)
	return s.took[len(s.took)/2]
}

// against runs each side in turns, in n goroutines, and reports the median of
// each, and the first one's over it.
func against(b *testing.B, n int, sides ...*side) {
	b.Helper()
	var mu sync.Mutex
	next := 0
	b.ResetTimer()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= b.N {
					return
				}
				for k := range sides {
					s := sides[(i+k)%len(sides)]
					began := time.Now()
					if err := s.step(b.Context(), i); err != nil {
						b.Errorf("%s: %v", s.name, err)
						return
					}
					d := time.Since(began)
					mu.Lock()
					s.took = append(s.took, d)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	for _, s := range sides {
		b.ReportMetric(float64(s.median())/1e3, s.name+"-µs")
		b.ReportMetric(float64(sides[0].median())/float64(s.median()), s.name+"-x")
	}
}

// raw is the table of hand-written statements.
type raw struct {
	*pgxpool.Pool
	table string
}

func newRaw(b *testing.B, p place, pool *pgxpool.Pool) *raw {
	b.Helper()
	r := &raw{pool, pgx.Identifier{p.schema, "raw"}.Sanitize()}
	p.exec(b, pool, "CREATE TABLE "+r.table+" (key text COLLATE \"C\" PRIMARY KEY, state smallint NOT NULL, token bigint NOT NULL,"+
		" lease_until timestamptz NOT NULL, expires_at timestamptz, outcome bytea)")
	return r
}

func (r *raw) selectOne(ctx context.Context, key string) error {
	var state int16
	var token int64
	var ended bool
	var outcome []byte
	return r.QueryRow(ctx, "SELECT state, token, lease_until < clock_timestamp(), outcome FROM "+r.table+" WHERE key = $1", key).
		Scan(&state, &token, &ended, &outcome)
}

func (r *raw) insertUpdate(ctx context.Context, key string, value []byte) error {
	if _, err := r.Exec(ctx, "INSERT INTO "+r.table+" VALUES ($1, 1, 7, clock_timestamp() + interval '30 s') ON CONFLICT DO NOTHING", key); err != nil {
		return err
	}
	_, err := r.Exec(ctx, "UPDATE "+r.table+" SET state = 3, outcome = $2, expires_at = clock_timestamp() + interval '90 d' WHERE key = $1 AND token = 7 AND state = 1", key, value)
	return err
}

// BenchmarkAgainstRawStatements measures what the contract costs over statements
// that are written by hand for one purpose.
func BenchmarkAgainstRawStatements(b *testing.B) {
	for _, size := range []int{200, 4096} {
		for _, n := range []int{1, 8} {
			b.Run(fmt.Sprintf("replay/%dB/c%d", size, n), func(b *testing.B) { benchReplays(b, size, n) })
			b.Run(fmt.Sprintf("first/%dB/c%d", size, n), func(b *testing.B) { benchFirsts(b, size, n) })
			b.Run(fmt.Sprintf("transaction/%dB/c%d", size, n), func(b *testing.B) { benchTransactions(b, size, n) })
		}
	}
}

func random(n int) []byte {
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(i*i*31 + i>>3)
	}
	return v
}

func benchClaim(key string) *driver.ClaimParams {
	return &driver.ClaimParams{
		Key: key, Owner: driver.Owner{1}, Lease: 30 * time.Second, Retention: time.Hour, Take: driver.TakeAbsent | driver.TakeReleased,
	}
}

func claimComplete(ctx context.Context, back driver.Backend, key string, v []byte) error {
	res, err := back.Claim(ctx, benchClaim(key))
	if err != nil {
		return err
	}
	if res.Fact != driver.Acquired {
		return fmt.Errorf("the claim is %v", res.Fact)
	}
	return back.Complete(ctx, driver.Ref{Key: key, Owner: driver.Owner{1}, Token: res.Record.Token},
		&driver.CompleteParams{Outcome: driver.Outcome{Value: v}, Retention: 90 * 24 * time.Hour})
}

func benchReplays(b *testing.B, size, n int) {
	b.Helper()
	p := newPlace(b)
	pool := p.pool(b, conns(int32(n)))
	r, back := newRaw(b, p, pool), p.backend(b, pool)
	const keys = 1000
	for i := range keys {
		require.NoError(b, claimComplete(b.Context(), back, fmt.Sprint(i), random(size)))
		require.NoError(b, r.insertUpdate(b.Context(), fmt.Sprint(i), random(size)))
	}
	fresh := make([]*pgstore.Backend, keys) // each sees each key once: the statement that could create
	for i := range fresh {
		fresh[i] = p.backend(b, pool)
	}
	replay := func(ctx context.Context, back driver.Backend, i int) error {
		res, err := back.Claim(ctx, benchClaim(fmt.Sprint(i%keys)))
		if err == nil && (res.Fact != driver.Completed || len(res.Record.Outcome.Value) != size) {
			return fmt.Errorf("the claim is %v", res.Fact)
		}
		return err
	}
	against(b, n,
		&side{name: "select", step: func(ctx context.Context, i int) error { return r.selectOne(ctx, fmt.Sprint(i%keys)) }},
		&side{name: "select-again", step: func(ctx context.Context, i int) error { return r.selectOne(ctx, fmt.Sprint(i%keys)) }},
		&side{name: "known", step: func(ctx context.Context, i int) error { return replay(ctx, back, i) }},
		&side{name: "unknown", step: func(ctx context.Context, i int) error { return replay(ctx, fresh[i/keys%keys], i) }},
	)
}

func benchFirsts(b *testing.B, size, n int) {
	b.Helper()
	p := newPlace(b)
	pool := p.pool(b, conns(int32(n)))
	r, back, v := newRaw(b, p, pool), p.backend(b, pool), random(size)
	against(b, n,
		&side{name: "raw", step: func(ctx context.Context, i int) error { return r.insertUpdate(ctx, fmt.Sprint(i), v) }},
		&side{name: "raw-again", step: func(ctx context.Context, i int) error { return r.insertUpdate(ctx, fmt.Sprint("again ", i), v) }},
		&side{name: "first", step: func(ctx context.Context, i int) error { return claimComplete(ctx, back, fmt.Sprint(i), v) }},
	)
	require.GreaterOrEqual(b, value[int64](b, p, pool, "SELECT count(*) FROM {records} WHERE state = 3"), int64(b.N))
}

func benchTransactions(b *testing.B, size, n int) {
	b.Helper()
	p := newPlace(b)
	pool := p.pool(b, conns(int32(n)))
	v := random(size)
	effects := pgx.Identifier{p.schema, "effects"}.Sanitize()
	p.exec(b, pool, "CREATE TABLE "+effects+" (what text, v bytea)")
	s := storeOver(b, p.backend(b, pool), nil)
	effect := func(ctx context.Context, tx pgx.Tx, i int) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+effects+" VALUES ($1, $2)", fmt.Sprint(i), v)
		return err
	}
	bare := func(ctx context.Context, i int) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return effect(ctx, tx, i) })
	}
	against(b, n,
		&side{name: "bare", step: bare},
		&side{name: "bare-again", step: bare},
		&side{name: "execute-tx", step: func(ctx context.Context, i int) error {
			res, err := pgstore.ExecuteTx(ctx, s, pool, fmt.Sprint(i), func(ctx context.Context, tx pgx.Tx) (idem.Result, error) {
				return idem.Result{Value: v}, effect(ctx, tx, i)
			})
			if err == nil && res.Replayed {
				err = fmt.Errorf("it is a replay")
			}
			return err
		}},
		&side{name: "execute", step: func(ctx context.Context, i int) error {
			_, err := s.Execute(ctx, fmt.Sprint("plain ", i), func(ctx context.Context) (idem.Result, error) {
				return idem.Result{Value: v}, bare(ctx, i)
			})
			return err
		}},
	)
}
