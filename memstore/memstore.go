package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Reuser   = (*Backend)(nil)
	_ driver.Retainer = (*Backend)(nil)
	_ driver.Watcher  = (*Backend)(nil)
	_ driver.Editor   = (*Backend)(nil)
	_ driver.Lister   = (*Backend)(nil)
	_ driver.Purger   = (*Backend)(nil)
)

const (
	defaultRetention = 24 * time.Hour
	defaultMaxBytes  = 1 << 30

	// shardCount is a power of two, and enough that two busy keys seldom meet.
	shardCount = 64
	// roomLooks is how many records of each shard a full Backend looks at before
	// it refuses a new key.
	roomLooks = 16
)

// Options of a [Backend]. The zero value is valid.
type Options struct {
	// Retention is how long an outcome is kept when the caller names no
	// retention; DefaultRetention tells it. A negative one is told as it is, and
	// refused by whoever asks. The default value is 24 hours.
	Retention time.Duration

	// MaxBytes is how much the records may take, by an estimate that counts the
	// bookkeeping too. When it is used up, keys without a record are refused with
	// [driver.ErrUnavailable]; a claim that exists can always be renewed,
	// completed and released, so that the outcomes of running operations may
	// exceed it. A negative one refuses every key. The default value is 1 GiB.
	MaxBytes int64
}

// Backend keeps records in memory. It is safe for concurrent use. Contexts end a
// call only before it has begun its step: no step waits for anything but the
// mutex of its shard.
type Backend struct {
	retention time.Duration
	maxBytes  int64
	seed      maphash.Seed
	token     atomic.Uint64 // the last token issued, whatever its key (I2)
	bytes     atomic.Int64  // what the records of all shards take, estimated
	shards    [shardCount]shard
}

// New returns an empty Backend. A nil opts is valid.
func New(opts *Options) *Backend {
	b := &Backend{retention: defaultRetention, maxBytes: defaultMaxBytes, seed: maphash.MakeSeed()}
	if opts != nil && opts.Retention != 0 {
		b.retention = opts.Retention
	}
	if opts != nil && opts.MaxBytes != 0 {
		b.maxBytes = opts.MaxBytes
	}
	b.token.Store(uint64(max(0, time.Now().UnixMicro()))) // see Tokens in the package documentation
	for i := range b.shards {
		b.shards[i].init(&b.bytes)
	}
	return b
}

// DefaultRetention implements [driver.Retainer].
func (b *Backend) DefaultRetention() time.Duration { return b.retention }

// Inspect implements [driver.Backend].
func (b *Backend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	rec := b.inspect(key)
	if rec == nil {
		return nil, errNotFound()
	}
	return detach(rec), nil
}

func (b *Backend) inspect(key string) *driver.Record {
	sh := b.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	r := sh.find(key, now)
	if r == nil {
		return nil
	}
	rec := r.snapshot(now)
	return &rec
}

// Stat is a snapshot of a [Backend]. Records whose retention has ended count
// until they are removed.
type Stat struct {
	Records  int64 // kept for all keys
	Bytes    int64 // that they take, by estimate
	MaxBytes int64 // after which new keys are refused
}

// Stat counts shard by shard: what changes meanwhile may or may not be in it.
func (b *Backend) Stat() Stat {
	s := Stat{Bytes: b.bytes.Load(), MaxBytes: b.maxBytes}
	for i := range b.shards {
		s.Records += b.shards[i].count()
	}
	return s
}

func (b *Backend) shard(key string) *shard {
	return &b.shards[maphash.String(b.seed, key)%shardCount]
}

// nextToken is higher than the last token of any key, of one that was purged
// too (I2): every token comes from this counter.
func (b *Backend) nextToken() uint64 { return b.token.Add(1) }

// reserve takes n bytes of MaxBytes, or reports that they are not there.
func (b *Backend) reserve(n int64) bool {
	for {
		used := b.bytes.Load()
		if used+n > b.maxBytes {
			return false
		}
		if b.bytes.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// makeRoom removes some records whose retention has ended and reports whether
// there were any. Its work is bounded; it goes on where it stopped the last time.
// No mutex may be held.
func (b *Backend) makeRoom() bool {
	removed := 0
	for i := range b.shards {
		removed += b.shards[i].makeRoom(roomLooks)
	}
	return removed > 0
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
		return fmt.Errorf("memstore: not begun: %w", cause)
	}
	return fmt.Errorf("memstore: not begun: %w: %w", err, cause)
}
