package tieredstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

const day = 24 * time.Hour

// bench is a Store over two tiers in memory, both of which can make faults.
type bench struct {
	cache   *memstore.Cache
	fast    *faultstore.Cache
	archive *faultstore.Store
	tiers   *tieredstore.Backend
	store   *idem.Store
	runs    atomic.Int64 // of the operation, whatever its key

	fastFault, archiveFault faults
}

// faults of a tier from now on; nil is none. They may be set while calls run.
type faults struct {
	hook atomic.Pointer[faultstore.Hook]
}

func (f *faults) set(h faultstore.Hook) { f.hook.Store(&h) }

func (f *faults) ask(ctx context.Context, c faultstore.Call) faultstore.Fault {
	if h := f.hook.Load(); h != nil && *h != nil {
		return (*h)(ctx, c)
	}
	return faultstore.Fault{}
}

// newBench needs no server.
func newBench(tb testing.TB, opts *tieredstore.Options, storeOpts *idem.Options) *bench {
	tb.Helper()
	b := &bench{cache: memstore.NewCache(nil)}
	b.fast = faultstore.NewCache(b.cache, b.fastFault.ask)
	b.archive = faultstore.New(memstore.New(nil), b.archiveFault.ask)
	b.tiers = over(tb, b.fast, b.archive, opts)
	b.store = storeOver(tb, b.tiers, storeOpts)
	return b
}

func storeOver(tb testing.TB, b driver.Backend, opts *idem.Options) *idem.Store {
	tb.Helper()
	var o idem.Options
	if opts != nil {
		o = *opts
	}
	if o.Observer == nil {
		o.Observer = idem.Discard
	}
	s, err := idem.New(b, &o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close(context.WithoutCancel(tb.Context()))) })
	return s
}

// inBubble runs body with time that passes when all wait.
func inBubble(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, body)
}

// op counts a run, and returns its number.
func (b *bench) op(context.Context) (idem.Result, error) {
	return idem.Result{Value: []byte(strconv.FormatInt(b.runs.Add(1), 10))}, nil
}

// execute returns what the key's operation returned, which is its run's number.
func (b *bench) execute(t *testing.T, key string, opts ...idem.ExecuteOption) idem.Result {
	t.Helper()
	res, err := b.store.Execute(t.Context(), key, b.op, opts...)
	require.NoError(t, err)
	return res
}

// replays asserts that the key's outcome is replayed, and is the given run's.
func (b *bench) replays(t *testing.T, key, value string, when string) {
	t.Helper()
	res := b.execute(t, key)
	require.True(t, res.Replayed, when)
	require.Equal(t, value, string(res.Value), when)
}

// calls are what each tier has seen.
type calls struct{ gets, puts, deletes, archive int }

func (b *bench) calls() calls {
	return calls{b.fast.Count(faultstore.Get), b.fast.Count(faultstore.Put), b.fast.Count(faultstore.Delete), b.archive.Count("")}
}

// during returns the calls that f causes.
func (b *bench) during(f func()) calls {
	before := b.calls()
	f()
	after := b.calls()
	return calls{after.gets - before.gets, after.puts - before.puts, after.deletes - before.deletes, after.archive - before.archive}
}

// copyOf returns the copy in the fast tier, or nil.
func (b *bench) copyOf(t *testing.T, key string) *driver.Record {
	t.Helper()
	rec, err := b.cache.Get(t.Context(), driver.JoinKey("", key))
	if err != nil {
		require.ErrorIs(t, err, driver.ErrNotFound)
		return nil
	}
	return rec
}

// token of the key's record.
func (b *bench) token(t *testing.T, key string) uint64 {
	t.Helper()
	rec, err := b.store.Inspect(t.Context(), key)
	require.NoError(t, err)
	return rec.Token
}

var errDown = errors.New("connection refused")

// down is a tier that refuses every call.
func down() faultstore.Hook { return faultstore.Fail("", 0, errDown) }

// only applies h to the calls of one method.
func only(method string, h faultstore.Hook) faultstore.Hook {
	return func(ctx context.Context, c faultstore.Call) faultstore.Fault {
		if c.Method != method {
			return faultstore.Fault{}
		}
		return h(ctx, c)
	}
}

// Operations that end otherwise than with a result.
func failing(context.Context) (idem.Result, error) {
	return idem.Result{}, idem.Permanent(errors.New("declined"))
}

func refusing(context.Context) (idem.Result, error) {
	return idem.Result{}, idem.NotApplied(errors.New("throttled"))
}

func doubtful(context.Context) (idem.Result, error) {
	return idem.Result{}, idem.Unknown(errors.New("timed out"))
}

// lastPut returns the parameters of the last Put.
func lastPut(t *testing.T, b *bench) *driver.PutParams {
	t.Helper()
	for _, e := range slices.Backward(b.fast.Log()) {
		if p, ok := e.Params.(*driver.PutParams); ok {
			return p
		}
	}
	require.Fail(t, "nothing was put")
	return nil
}
