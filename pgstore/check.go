package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/idem-go/idem/driver"
)

// minVersion of the server: the oldest that is tested.
const minVersion = 130000

// server is what Check asks of it.
type server struct {
	version                   int64
	recovery                  bool
	readOnly, fsync, commit   string
	fullPages, encoding       string
	dates, bytes              string // how values look in text
	usage                     bool
	selects, inserts, updates bool
	deletes                   bool
	comment                   []byte // NULL: no table, or no comment
	exists                    bool
	clock, newest             int64 // microseconds
}

// Check implements [driver.Checker]. It refuses a server in recovery or a
// read-only session (a read that misses on a copy must not decide: C62), one
// that cannot hold the keys, a table that is missing or of another version, a
// role without the four rights, and a clock that is behind the last token issued
// (I2). It warns where an acknowledged outcome may be lost by a crash.
func (b *Backend) Check(ctx context.Context) error {
	s, err := b.server(ctx)
	if err == nil {
		_, err = b.home(ctx) // or the first transaction of a caller would need a second connection to ask (C16)
	}
	if err != nil {
		return fail(ctx, err)
	}
	var found []error
	note := func(bad bool, severity driver.Severity, code, format string, args ...any) {
		if bad {
			found = append(found, &driver.Finding{Severity: severity, Code: code, Remedy: fmt.Sprintf(format, args...)})
		}
	}
	note(s.version < minVersion, driver.Refuse, "postgres_too_old", "the server's version is %d; use Postgres 13 or later", s.version/10000)
	note(s.recovery, driver.Refuse, "postgres_standby", "the server is in recovery, a standby: connect to the primary (target_session_attrs=read-write)")
	note(!s.recovery && s.readOnly != "off", driver.Refuse, "postgres_read_only", "the session is read-only: connect to the primary, or set default_transaction_read_only off")
	note(s.encoding != "UTF8", driver.Refuse, "postgres_encoding", "the database's encoding is %s: keys and messages need UTF8", s.encoding)
	note(s.fsync == "off", driver.Warn, "postgres_fsync_off", "fsync is off: a crash of the server's machine may lose everything; set it on")
	note(s.fullPages == "off", driver.Warn, "postgres_full_page_writes_off", "full_page_writes is off: a crash may tear pages; set it on unless the storage forbids that")
	note(s.commit == "off", driver.Warn, "postgres_synchronous_commit_off", "synchronous_commit is off: a crash may lose the last outcomes, and their operations run again; set it on for this role")
	note(!strings.HasPrefix(s.dates, "ISO") || s.bytes != "hex", driver.Warn, "postgres_text_format",
		"DateStyle is %s and bytea_output %s: with QueryExecModeExec or QueryExecModeSimpleProtocol the client cannot read a record, and every call fails; set ISO and hex for this role", s.dates, s.bytes)
	if !s.exists {
		note(true, driver.Refuse, "postgres_no_table", "there is no table %s: run Migrate", b.names.table)
		return errors.Join(found...)
	}
	if missing := s.missing(); missing != "" {
		note(true, driver.Refuse, "postgres_rights", "the role lacks %s: grant it on %s", missing, b.names.table)
	}
	if v := schemaVersion(string(s.comment)); v < latest() {
		note(true, driver.Refuse, "postgres_not_migrated", "the table is of schema %d, this release needs %d: run Migrate", v, latest())
	}
	note(s.newest > s.clock+int64(1e6), driver.Refuse, "postgres_clock_behind",
		"the server's clock is %d s behind the newest token: set it right before claims are made", (s.newest-s.clock)/1e6)
	return errors.Join(found...)
}

// missing names the rights that the role does not have.
func (s *server) missing() string {
	var out []string
	for _, r := range []struct {
		have bool
		name string
	}{{s.usage, "USAGE on the schema"}, {s.selects, "SELECT"}, {s.inserts, "INSERT"}, {s.updates, "UPDATE"}, {s.deletes, "DELETE"}} {
		if !r.have {
			out = append(out, r.name)
		}
	}
	return strings.Join(out, ", ")
}

func (b *Backend) server(ctx context.Context) (*server, error) {
	s := &server{}
	const c = "pg_catalog."
	right := func(verb string) string {
		return "COALESCE(" + c + "has_table_privilege(r.oid, '" + verb + "'), false)"
	}
	set := func(name string) string { return c + "current_setting('" + name + "')" }
	sql := "SELECT " + set("server_version_num") + "::bigint, " + c + "pg_is_in_recovery(), " + set("transaction_read_only") + ", " +
		set("fsync") + ", " + set("synchronous_commit") + ", " + set("full_page_writes") + ", " + set("server_encoding") + ", " + set("DateStyle") + ", " + set("bytea_output") + ", " +
		"r.oid IS NOT NULL, COALESCE(" + c + "has_schema_privilege(n.oid, 'USAGE'), false), " +
		right("SELECT") + ", " + right("INSERT") + ", " + right("UPDATE") + ", " + right("DELETE") + ", " +
		c + "obj_description(r.oid, 'pg_class') FROM (SELECT 1) one" +
		" LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1::pg_catalog.text LEFT JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = $2::pg_catalog.text"
	_, err := one(ctx, b.db, sql, []any{
		&s.version, &s.recovery, &s.readOnly, &s.fsync, &s.commit, &s.fullPages, &s.encoding, &s.dates, &s.bytes, &s.exists, &s.usage,
		&s.selects, &s.inserts, &s.updates, &s.deletes, &s.comment,
	}, []any{b.names.schema, b.names.bareTable})
	if err != nil || !s.exists || !s.usage || !s.selects {
		return s, err
	}
	// The records that end last are among the newest: near enough, by an index.
	newest := "SELECT (" + c + "date_part('epoch', " + clock + ") * 1000000)::bigint, COALESCE((SELECT " + c + "max(token) FROM" +
		" (SELECT token FROM " + b.names.table + " WHERE expires_at IS NOT NULL ORDER BY expires_at DESC LIMIT 100) x), 0)"
	_, err = one(ctx, b.db, newest, []any{&s.clock, &s.newest}, nil)
	return s, err
}
