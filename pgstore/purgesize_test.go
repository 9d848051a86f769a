package pgstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/pgstore"
)

// execute claims and completes n records, with a value of 200 bytes and keys of
// 24, as a first execution does, 8 at a time.
func (p place) execute(b *testing.B, back *pgstore.Backend, prefix string, n int, retention time.Duration) {
	b.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				key := fmt.Sprintf("0:%-10s%012d", prefix, (i*7_919)%n)
				claim := benchClaim(key)
				res, err := back.Claim(b.Context(), claim)
				if err == nil {
					err = back.Complete(b.Context(), driver.Ref{Key: key, Owner: claim.Owner, Token: res.Record.Token},
						&driver.CompleteParams{Outcome: driver.Outcome{Value: random(200)}, Retention: retention})
				}
				if err != nil {
					b.Errorf("record %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// sizes reports what the records take, by the record: the table, its indexes,
// and the whole.
func (p place) sizes(b *testing.B, pool *pgxpool.Pool, when string) {
	b.Helper()
	n := float64(value[int64](b, p, pool, "SELECT count(*) FROM {records}"))
	for name, function := range map[string]string{"table": "pg_table_size", "indexes": "pg_indexes_size", "total": "pg_total_relation_size"} {
		b.ReportMetric(float64(value[int64](b, p, pool, "SELECT "+function+"('"+p.table+"')"))/n, when+"-"+name+"-B")
	}
}

// BenchmarkBytesPerRecord reports what a record takes in Postgres: fresh, as
// written by first executions; vacuumed, once the space of the claims' versions
// is free again; and steady, after three rounds in which half of the records end,
// are purged, and as many are written anew. wal-B is what an execution writes to the
// log, with what the server adds to pages after a checkpoint.
func BenchmarkBytesPerRecord(b *testing.B) {
	n := sized(100_000, 400)
	for range b.N {
		p := benchPlace(b, "autovacuum=off", "synchronous_commit=off")
		pool := p.pool(b, conns(workers), unbounded)
		back := p.backend(b, pool)
		const day = 24 * time.Hour
		const written = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
		p.exec(b, pool, "CHECKPOINT")
		before := value[int64](b, p, pool, written)
		p.execute(b, back, "stays", n/2, 90*day)
		p.execute(b, back, "ends", n-n/2, 90*day)
		b.ReportMetric(float64(value[int64](b, p, pool, written)-before)/float64(n), "wal-B")
		p.sizes(b, pool, "fresh")
		p.exec(b, pool, "VACUUM {records}")
		p.sizes(b, pool, "vacuumed")
		for round := range 3 {
			p.exec(b, pool, "UPDATE {records} SET expires_at = clock_timestamp() WHERE key LIKE '0:ends%'")
			p.exec(b, pool, "VACUUM {records}") // of the UPDATE's own traces, which no purge leaves
			res, err := back.Purge(b.Context(), &driver.PurgeParams{})
			require.NoError(b, err)
			require.Equal(b, int64(n-n/2), res.Purged, "round %d", round)
			p.exec(b, pool, "VACUUM {records}")
			p.execute(b, back, fmt.Sprint("ends ", round), n-n/2, 90*day)
		}
		p.exec(b, pool, "VACUUM {records}")
		require.Equal(b, int64(n), value[int64](b, p, pool, "SELECT count(*) FROM {records}"))
		p.sizes(b, pool, "steady")
		b.ReportMetric(0, "ns/op")
	}
}
