package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// pass makes time pass for a record: every instant of it moves back by d.
func (p place) pass(t *testing.T, db querier, key string, d time.Duration) {
	t.Helper()
	const columns = "claimed_at, changed_at, windows_from, lease_until, recorded_at, expires_at, audit_at"
	p.exec(t, db, "UPDATE {records} SET ("+columns+") = (SELECT claimed_at - d, changed_at - d, windows_from - d, lease_until - d,"+
		" recorded_at - d, expires_at - d, audit_at - d FROM (SELECT $2::bigint * interval '1 microsecond' AS d) x) WHERE key = $1", key, d.Microseconds())
}

// C65: a retention of 60 s, an operation of 30 s, and calls at 59, 61, 89 and 91 s
// after its beginning. The retention counts from the completion, reading does not
// extend it, and a sweep makes no difference.
func TestARetentionCountsFromTheCompletion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	s := storeOver(t, b, &idem.Options{Retention: time.Minute, RetryWindow: time.Minute})
	for _, sweep := range []bool{false, true} {
		key := fmt.Sprint("sweep: ", sweep)
		claim, err := s.Claim(t.Context(), key, time.Hour)
		require.NoError(t, err)
		p.pass(t, pool, join(key), 30*time.Second)
		require.NoError(t, s.Record(t.Context(), claim, idem.Result{Value: []byte("first")}))
		var n atomic.Int64
		now := 30 * time.Second
		for _, at := range []time.Duration{59 * time.Second, 61 * time.Second, 89 * time.Second, 91 * time.Second} {
			p.pass(t, pool, join(key), at-now)
			now = at
			if sweep {
				_, err := b.Purge(t.Context(), &driver.PurgeParams{})
				require.NoError(t, err)
			}
			res, err := s.Execute(t.Context(), key, counting(&n, "second"))
			require.NoError(t, err)
			require.Equal(t, at < 90*time.Second, res.Replayed, "%s at %v", key, at)
			require.Equal(t, at > 90*time.Second, n.Load() == 1, "%s at %v", key, at)
		}
	}
}

// childEnv makes this program the process that TestAKilledProcess kills: it holds
// the schema.
const childEnv = "IDEM_TEST_PGSTORE_CHILD"

// child claims the key k under a lease of 2 s, says so, and works until it is
// killed.
func child(schema string) error {
	ctx := context.Background()
	p := place{url: os.Getenv("IDEM_TEST_PGSTORE_URL"), schema: schema}
	pool, err := openPool(ctx, p.url, p.named)
	if err != nil {
		return err
	}
	b, err := newBackend(pool, p)
	if err != nil {
		return err
	}
	s, err := idem.New(b, nil)
	if err != nil {
		return err
	}
	_, err = s.Execute(ctx, "k", func(ctx context.Context) (idem.Result, error) {
		if _, err := fmt.Println("running"); err != nil {
			return idem.Result{}, err
		}
		<-ctx.Done()
		return idem.Result{}, ctx.Err()
	}, idem.WithLease(2*time.Second), idem.WithRetention(24*time.Hour))
	return err
}

// C13, with a process that is killed inside the operation.
func TestAKilledProcessBlocksTheKeyForItsLeaseOnly(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		p := newPlace(t)
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), childEnv+"="+p.schema, "IDEM_TEST_PGSTORE_URL="+p.url)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		said := make(chan string, 1)
		go func() {
			line := make([]byte, 64)
			n, _ := out.Read(line)
			said <- string(line[:n])
		}()
		require.Equal(t, "running\n", receive(t, said, "the child's operation"))
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())

		s := storeOver(t, p.backend(t, p.pool(t)), nil)
		var opts []idem.ExecuteOption
		if strict {
			opts = append(opts, idem.OnUnknown(idem.Hold))
		}
		before, err := s.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.LessOrEqual(t, before.LeaseLeft, 2*time.Second)
		var n atomic.Int64
		_, err = s.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			n.Add(1)
			c, _ := idem.ClaimFrom(ctx)
			require.True(t, c.Takeover())
			require.Greater(t, c.Token(), before.Token)
			return idem.Result{}, nil
		}, append(opts, idem.WithWait(patience))...)
		if strict {
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
			require.Zero(t, n.Load())
		} else {
			require.NoError(t, err)
			require.Equal(t, int64(1), n.Load())
		}
	}
}
