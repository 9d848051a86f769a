package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the SQL of all migrations, one file each, in the order of
// their names, for those who use a tool of their own. The names in them are the
// default ones; [Backend.Migrations] has those of a Backend. The last statement
// of each file notes the version that Validate looks for.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic("bug: " + err.Error())
	}
	return sub
}

// Migration is one step of the schema.
type Migration struct {
	// Version counts from 1.
	Version int
	// Name of the file, as in [Migrations].
	Name string
	// SQL is one or more statements, for a single transaction.
	SQL string
}

// Migrations returns the steps of the schema with this Backend's names.
func (b *Backend) Migrations() []Migration {
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		panic("bug: " + err.Error())
	}
	slices.Sort(files)
	out := make([]Migration, len(files))
	for i, name := range files {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			panic("bug: " + err.Error())
		}
		out[i] = Migration{Version: i + 1, Name: name, SQL: b.names.rename(string(text))}
	}
	return out
}

// latest is the version that this release needs.
func latest() int {
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		panic("bug: " + err.Error())
	}
	return len(files)
}

// commentPrefix begins the table's comment, which ends in the schema's version.
const commentPrefix = "idem records, schema "

// schemaVersion reads the version from a table's comment; 0 if it has none.
func schemaVersion(comment string) int {
	digits, ok := strings.CutPrefix(comment, commentPrefix)
	if !ok {
		return 0
	}
	v, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return v
}

// Migrate brings the schema up to this release's version, in one transaction,
// and does nothing if it is there already. Many processes may call it at once:
// an advisory lock lets them in one after the other. It creates the schema that
// Options name, if it is missing. While the server is starting up it tries
// again, until ctx ends.
//
// The role needs the rights to create tables in the schema; the role that runs
// operations does not.
func (b *Backend) Migrate(ctx context.Context) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := b.migrate(ctx)
		if err == nil {
			return nil
		}
		if sqlState(err) != stateStarting {
			return fail(ctx, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fail(ctx, err)
		}
	}
}

func (b *Backend) migrate(ctx context.Context) (err error) {
	tx, err := b.db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rolledBack(tx.Rollback(context.WithoutCancel(ctx))))
		}
	}()
	if _, err := one(ctx, tx, "SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)", nil, []any{b.names.lockID()}); err != nil {
		return err
	}
	version, exists, err := b.version(ctx, tx)
	if err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Conn().PgConn().Exec(ctx, "CREATE SCHEMA "+quote(b.names.schema)).ReadAll(); err != nil {
			return err
		}
	}
	for _, m := range b.Migrations() {
		if m.Version <= version {
			continue
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, m.SQL).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
	}
	return tx.Commit(ctx)
}

// rolledBack hides that a transaction had ended already.
func rolledBack(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
}

// version reads the version of the table's schema; 0 without a table. exists
// tells of the schema that it is to live in.
func (b *Backend) version(ctx context.Context, q querier) (version int, exists bool, err error) {
	var comment []byte
	_, err = one(ctx, q, "SELECT n.oid IS NOT NULL, pg_catalog.obj_description(r.oid, 'pg_class') FROM (SELECT 1) one"+
		" LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1::pg_catalog.text"+
		" LEFT JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = $2::pg_catalog.text",
		[]any{&exists, &comment}, []any{b.names.schema, b.names.bareTable})
	return schemaVersion(string(comment)), exists, err
}

// lockID is the advisory lock of a table's migrations.
func (n *names) lockID() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("idem migrate " + n.table)) // never fails
	return int64(h.Sum64())                           //nolint:gosec // all bits are wanted
}

// ErrNotMigrated is what [Backend.Validate] returns of a table that is missing
// or older than this release needs.
var ErrNotMigrated = errors.New("schema not migrated")

// Validate looks whether the schema is what this release needs, without changing
// anything: [ErrNotMigrated] if not. A newer version is accepted: columns are
// only ever added.
func (b *Backend) Validate(ctx context.Context) error {
	version, _, err := b.version(ctx, b.db)
	if err != nil {
		return fail(ctx, err)
	}
	if version < latest() {
		return fmt.Errorf("pgstore: %w: table %s is of version %d, this release needs %d: run Migrate", ErrNotMigrated, b.names.table, version, latest())
	}
	if _, err := one(ctx, b.db, b.sql.look, nil, []any{"0:"}); err != nil {
		return fail(ctx, err)
	}
	return nil
}
