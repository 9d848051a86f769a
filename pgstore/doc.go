// Package pgstore keeps idem's records in a table of Postgres, through pgx v5.
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	backend, err := pgstore.New(pool, nil)
//	...
//	err = backend.Migrate(ctx) // or run the files of Migrations with your own tool
//	...
//	store, err := idem.New(backend, &idem.Options{Namespace: "billing"})
//
// [ExecuteTx] runs an operation whose effect is in the same database: claim,
// effect and outcome commit together.
//
// # What it guarantees
//
// All invariants of package driver, among all processes that use the table.
//
//   - Consistency: each step is one statement on one row, decided by the row that
//     it affects, and seen by every call that begins after it returned. All that
//     it relies on is READ COMMITTED and the unique index of the key; a session
//     with another default isolation works too.
//   - Durability (I10): when a call returns nil its effect is committed: it
//     survives a crash of the server, with fsync and synchronous_commit on, as
//     they are by default. [Backend.Check] warns if they are not.
//   - Clock (I7): clock_timestamp() of the server. The process's clock decides
//     nothing.
//   - Tokens (I2): the larger of the last one plus 1 and the server's clock in
//     microseconds, so that they rise over a purge, a restart and a restore too,
//     provided that the clock is not behind the last token issued. Check looks.
//   - Keys: text of up to 1024 bytes (with the namespace), valid UTF-8 without a
//     zero byte; anything else is refused before anything is sent. They are
//     compared byte by byte.
//
// # What it does not
//
// A failover to an asynchronous standby loses what had not reached it: the last
// claims and outcomes, without a trace, so that their operations run again. Make
// the standby synchronous, or the operations safe to repeat. Everything, reads too, must go to the primary: a
// standby is refused, because a record that it does not have yet would be taken
// for none.
//
// Records whose retention has ended stay until they are purged: run
// [Backend.PurgeLoop] in every process, or [Backend.Purge] now and then. They
// behave as absent meanwhile.
//
// # What it costs
//
// A replay, a mismatch, or a claim in progress is one round trip and writes
// nothing: no WAL, no transaction id. A first execution is two, the claim and the
// completion, with a commit each. A takeover is one more. [ExecuteTx] takes four
// (BEGIN, the claim, the completion, COMMIT) besides the operation's own, with one
// commit.
//
// # Modes of the client
//
// Every QueryExecMode of pgx works. Behind a proxy that pools transactions
// (pgbouncer before 1.21, or without max_prepared_statements) use
// QueryExecModeExec or QueryExecModeSimpleProtocol, as for any statement there;
// and Options.Listen, or waiting duplicates poll. Statements name their columns,
// so that a column added by a migration disturbs nobody.
//
// # Rights
//
// The role that runs operations needs USAGE on the schema and SELECT, INSERT,
// UPDATE and DELETE on the table; DELETE is for Purge alone. The role that
// migrates also needs CREATE on the schema, and on the database if Migrate is to
// create the schema.
//
// The search_path does not matter: names carry their schema. Operators do not, so
// that no schema in which strangers may create them belongs before pg_catalog.
package pgstore
