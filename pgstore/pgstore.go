package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/known"
)

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Checker  = (*Backend)(nil)
	_ driver.Editor   = (*Backend)(nil)
	_ driver.Lister   = (*Backend)(nil)
	_ driver.Purger   = (*Backend)(nil)
	_ driver.Retainer = (*Backend)(nil)
	_ driver.Watcher  = (*Backend)(nil)
)

const (
	defaultRetention = 90 * 24 * time.Hour
	defaultLockWait  = time.Second
)

// DB is what a Backend needs of a client: a [*pgxpool.Pool] has it.
//
// [*pgxpool.Pool]: https://pkg.go.dev/github.com/jackc/pgx/v5/pgxpool#Pool
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Options of a [Backend]. Nil and the zero value are valid.
type Options struct {
	// Schema of the table. It is always named in statements: the search_path
	// does not matter. At most 63 bytes. The default is "public".
	Schema string

	// Table of the records. The indexes and the view are named after it. At most
	// 55 bytes. The default is "idem_records".
	Table string

	// Retention is how long an outcome is kept when the caller names no
	// retention; DefaultRetention tells it. The default is 90 days.
	Retention time.Duration

	// LockWait bounds a claim's wait for another transaction that holds its
	// record: an ExecuteTx under way, mostly. After it the claim is answered with
	// "in progress". Keep it shorter than idem.Options.StoreTimeout. The default
	// is 1 second.
	LockWait time.Duration

	// Listen opens a connection for LISTEN, on which those who wait are woken. It
	// must reach the server itself: behind a transaction-pooling proxy no
	// notification arrives, and polling alone remains. The connection is closed
	// when nobody waits any more. The default takes one out of the pool, if the
	// client is a *pgxpool.Pool, so that it does not count among its connections
	// any more.
	Listen func(ctx context.Context) (*pgx.Conn, error)
}

// Backend keeps records in one table. It is safe for concurrent use.
type Backend struct {
	db        DB
	pool      *pool
	names     names
	sql       *statements
	retention time.Duration
	lockWait  time.Duration
	met       *known.Set // keys that have a record, as far as this process has seen: see shortcut
	listener  *listener
	located   atomic.Pointer[location]
}

// New returns a Backend over db. It does not touch the server: see
// [Backend.Migrate], [Backend.Validate] and [Backend.Check].
func New(db DB, opts *Options) (*Backend, error) {
	if db == nil {
		return nil, errors.New("pgstore: the client is nil")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	n, err := newNames(o.Schema, o.Table)
	if err != nil {
		return nil, err
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		def   time.Duration
	}{{"Retention", &o.Retention, defaultRetention}, {"LockWait", &o.LockWait, defaultLockWait}} {
		if *d.value < 0 {
			return nil, fmt.Errorf("pgstore: Options.%s %v is negative", d.field, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	b := &Backend{
		db: db, pool: &pool{db}, names: n, sql: newStatements(&n),
		retention: o.Retention, lockWait: o.LockWait, met: known.New(),
	}
	b.listener = newListener(b.sql.listen, o.listen(db))
	return b, nil
}

// DefaultRetention implements [driver.Retainer].
func (b *Backend) DefaultRetention() time.Duration { return b.retention }

// Inspect implements [driver.Backend].
func (b *Backend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	r, err := b.look(ctx, b.pool, key)
	if err != nil {
		return nil, err
	}
	rec := r.record()
	return &rec, nil
}

// look reads the record of a key: ErrNotFound without one, ErrCorrupt if it
// cannot be read.
func (b *Backend) look(ctx context.Context, l link, key string) (*row, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	r := &row{key: key}
	found, err := l.ask(ctx, b.sql.look, r, key)
	if err != nil {
		return nil, fail(ctx, err)
	}
	if !found {
		return nil, errNotFound()
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.expired() {
		return nil, errNotFound()
	}
	return r, nil
}
