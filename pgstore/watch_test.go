package pgstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/pgstore"
)

func (p place) listeners(t *testing.T, db querier) int {
	t.Helper()
	return int(value[int64](t, p, db, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = $1", p.schema))
}

// Waiting takes one connection, which is none of the pool's, and only while
// somebody waits.
func TestThoseWhoWaitShareOneConnection(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t, conns(1))
	other := p.pool(t)
	b := p.backend(t, pool)
	ctx, cancel := context.WithCancel(t.Context())
	var hints []<-chan struct{}
	var refs []driver.Ref
	for i := range 5 {
		ref := driver.Ref{Key: string(rune('a' + i)), Owner: driver.Owner{1}}
		res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: ref.Key, Owner: ref.Owner, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent})
		require.NoError(t, err)
		ref.Token = res.Record.Token
		refs = append(refs, ref)
		hint, err := b.Watch(ctx, ref.Key)
		require.NoError(t, err)
		hints = append(hints, hint)
	}
	require.Equal(t, 1, p.listeners(t, other))
	for i, ref := range refs {
		if i%2 == 0 {
			require.NoError(t, p.backend(t, other).Complete(t.Context(), ref, &driver.CompleteParams{Retention: time.Hour}))
		} else {
			require.NoError(t, p.backend(t, other).Release(t.Context(), ref, &driver.ReleaseParams{Retention: time.Hour}))
		}
		receive(t, hints[i], "a hint")
	}
	// A broken connection costs hints, not the watch: everybody looks, and it comes back.
	hint, err := b.Watch(ctx, "a")
	require.NoError(t, err)
	receive(t, hint, "a hint") // it was settled already: look once more
	p.exec(t, other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = $1", p.schema)
	receive(t, hint, "a hint of the broken connection")
	require.Eventually(t, func() bool { return p.listeners(t, other) == 1 }, 20*time.Second, 10*time.Millisecond)
	cancel()
	require.Eventually(t, func() bool { return p.listeners(t, other) == 0 }, 20*time.Second, 10*time.Millisecond)
	require.Zero(t, pool.Stat().AcquiredConns())
}

// A notification costs every commit: only a record that somebody waits for sends
// one.
func TestOnlyAWatchedRecordNotifies(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	b := p.backend(t, pool)
	channel := ""
	spy := &spying{DB: pool}
	ear, err := pgx.Connect(t.Context(), p.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ear.Close(context.WithoutCancel(t.Context())) })
	settle := func(key string, watched bool) {
		ref := driver.Ref{Key: key, Owner: driver.Owner{1}}
		res, err := b.Claim(t.Context(), &driver.ClaimParams{Key: key, Owner: ref.Owner, Lease: time.Hour, Retention: time.Hour, Take: driver.TakeAbsent})
		require.NoError(t, err)
		ref.Token = res.Record.Token
		if watched {
			_, err := b.Watch(t.Context(), key)
			require.NoError(t, err)
		}
		require.NoError(t, p.backend(t, spy).Complete(t.Context(), ref, &driver.CompleteParams{Retention: time.Hour}))
		for _, arg := range spy.seen {
			if s, ok := arg.(string); ok && len(s) > 5 && s[:5] == "idem_" {
				channel = s
			}
		}
	}
	settle("first", false)
	_, err = ear.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
	require.NoError(t, err)
	settle("unwatched", false)
	settle("watched", true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := ear.WaitForNotification(ctx)
	require.NoError(t, err)
	// Notifications arrive in the order of the commits: one of the record before would
	// have come first.
	digest := sha256.Sum256([]byte("watched"))
	require.Equal(t, hex.EncodeToString(digest[:16]), n.Payload, "a digest, not the key")
}

// Without a way to listen, and through a proxy that cannot, those who wait poll.
func TestPollingIsEnough(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	deaf, err := pgstore.New(&spying{DB: pool}, p.options())
	require.NoError(t, err)
	s := storeOver(t, deaf, nil)
	running, finish := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = storeOver(t, p.backend(t, pool), nil).Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
			close(running)
			if err := hold(ctx, finish); err != nil {
				return idem.Result{}, err
			}
			return idem.Result{Value: []byte("x")}, nil
		})
	}()
	receive(t, running, "the operation's beginning")
	time.AfterFunc(100*time.Millisecond, func() { close(finish) })
	res, err := s.Execute(t.Context(), "k", plain("y"), idem.WithWait(time.Minute))
	require.NoError(t, err)
	require.Equal(t, "x", string(res.Value))
}
