package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/known"
)

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Retainer = (*Backend)(nil)
	_ driver.Checker  = (*Backend)(nil)
	_ driver.Watcher  = (*Backend)(nil)
	_ driver.Editor   = (*Backend)(nil)
	_ driver.Lister   = (*Backend)(nil)
)

// tag stands between the prefix and the key. An empty pair of braces makes a
// Cluster hash the whole name: without it, braces in a user's key would choose
// the slot (C43).
const tag = "{}"

// Backend keeps records in Redis. It is safe for concurrent use, and holds
// nothing but the client it was given: the caller closes that when nobody uses
// the Backend any more.
type Backend struct {
	opts    Options
	tag     string
	client  *client
	scripts *scripts
	hub     *hub
	done    *known.Set // keys with an outcome, as far as this process has seen: see replay
}

// New returns a Backend over a client that the caller keeps and closes. A nil
// opts is valid. It asks the server nothing; Check does.
//
// It refuses a [redis.Ring]: a Ring moves keys to other servers when one of them
// fails, so that a key that runs there would run again here. It refuses a client
// without ContextTimeoutEnabled, whose calls would outlive their contexts, and a
// client whose options it cannot see.
//
// Cluster clients that read from replicas (ReadOnly, RouteByLatency,
// RouteRandomly) may be used: this package reads in scripts only, which go to
// the primary (C62).
func New(rdb redis.UniversalClient, opts *Options) (*Backend, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Prefix == defaultCachePrefix {
		return nil, fmt.Errorf("redisstore: Options.Prefix = %q is the default of a Cache: a backend needs another one", o.Prefix)
	}
	return newBackend(rdb, &o)
}

func newBackend(rdb redis.UniversalClient, o *Options) (*Backend, error) {
	c, err := newClient(rdb)
	if err != nil {
		return nil, err
	}
	if o.MinReplicas > 0 && c.readTimeout > 0 && o.ReplicaTimeout >= c.readTimeout {
		return nil, fmt.Errorf("redisstore: Options.ReplicaTimeout = %v is not shorter than the client's ReadTimeout = %v, which would end the wait first",
			o.ReplicaTimeout, c.readTimeout)
	}
	b := &Backend{opts: *o, tag: tag, client: c, scripts: newScripts(), done: known.New()}
	b.hub = newHub(b.client.subscribe)
	return b, nil
}

// DefaultRetention implements [driver.Retainer].
func (b *Backend) DefaultRetention() time.Duration { return b.opts.Retention }

// RedisKey returns the name under which the record of key is stored, for
// operators. Different keys have different names, and all names of a Backend
// begin with Options.Prefix.
func (b *Backend) RedisKey(key string) string { return b.opts.Prefix + b.tag + key }

// userKey is the inverse of RedisKey.
func (b *Backend) userKey(name string) (string, bool) {
	return strings.CutPrefix(name, b.opts.Prefix+b.tag)
}

// Inspect implements [driver.Backend]. It is one round trip.
func (b *Backend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	l, now, err := b.inspect(ctx, key)
	if err != nil {
		return nil, err
	}
	rec := &driver.Record{}
	if err := l.read(rec, key, now); err != nil {
		return nil, err
	}
	return rec, nil
}

// inspect returns the record as it is stored, and the server's time.
func (b *Backend) inspect(ctx context.Context, key string) (*layout, uint64, error) {
	if err := checkKey(key); err != nil {
		return nil, 0, err
	}
	reply, _, err := b.run(ctx, &b.scripts.inspect, key, nil)
	if err != nil {
		return nil, 0, err
	}
	raw, found, now, err := answer(reply)
	if err != nil {
		return nil, 0, err
	}
	if !found {
		return nil, 0, errNotFound()
	}
	l := &layout{}
	return l, now, l.split(raw, false)
}

// answer takes the reply of claim.lua and its like apart. found is false without
// a record.
func answer(reply any) (raw string, found bool, now uint64, err error) {
	switch r := reply.(type) {
	case string: // seconds, microseconds, record
		if seconds, rest, ok := strings.Cut(r, " "); ok {
			if micros, rest, ok := strings.Cut(rest, " "); ok {
				now, err = serverTime(seconds, micros)
				return rest, true, now, err
			}
		}
	case []any:
		if len(r) < 2 || len(r) > 3 {
			break
		}
		seconds, _ := r[0].(string)
		micros, _ := r[1].(string)
		if len(r) == 3 {
			raw, found = r[2].(string)
		}
		now, err = serverTime(seconds, micros)
		return raw, found, now, err
	}
	return "", false, 0, errReply(reply)
}

// errReply is the error for a reply that no script makes.
func errReply(reply any) error { return fmt.Errorf("redisstore: an unknown reply of type %T", reply) }

// serverTime is what TIME tells, in microseconds.
func serverTime(seconds, micros string) (uint64, error) {
	s, err1 := strconv.ParseUint(seconds, 10, 40)
	us, err2 := strconv.ParseUint(micros, 10, 20)
	if err1 != nil || err2 != nil {
		return 0, errReply(seconds)
	}
	return s*1e6 + us, nil
}

// The checks below refuse parameters that no caller of the contract may send,
// before anything was sent.

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("redisstore: %w: it is empty", driver.ErrInvalidKey)
	}
	return nil
}

func checkOwner(o driver.Owner) error {
	if o == (driver.Owner{}) {
		return errors.New("redisstore: the owner is zero: it must be random, and made anew for each claim")
	}
	return nil
}

func checkLease(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("redisstore: a lease of %v is shorter than 1ms", d)
	}
	return nil
}

func checkRetention(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("redisstore: a retention of %v is not positive", d)
	}
	return nil
}

// checkRef also says that the zero owner never holds a claim (I3).
func checkRef(ref driver.Ref) error {
	if err := checkKey(ref.Key); err != nil {
		return err
	}
	if ref.Owner == (driver.Owner{}) {
		return errLeaseLost("the zero owner holds no claim")
	}
	return nil
}
