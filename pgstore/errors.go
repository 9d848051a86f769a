package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idem-go/idem/driver"
)

// Errors do not name the key: it may identify a person, and the caller knows it.

func corrupt(why string) error { return fmt.Errorf("pgstore: %w: %s", driver.ErrCorrupt, why) }

func errNotFound() error { return fmt.Errorf("pgstore: %w", driver.ErrNotFound) }

func errLeaseLost(why string) error { return fmt.Errorf("pgstore: %w: %s", driver.ErrLeaseLost, why) }

func errConflict(why string) error { return fmt.Errorf("pgstore: %w: %s", driver.ErrConflict, why) }

// SQLSTATEs that are treated by name.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateLockTimeout   = "55P03"
	stateStarting      = "57P03"
	stateReadOnly      = "25006"
	stateNoTable       = "42P01"
	statePlanChanged   = "0A000" // "cached plan must not change result type"
	stateNoStatement   = "26000"
	stateNoRight       = "42501"
)

// sqlState returns the SQLSTATE of an error that the server reported, of any
// client: pgx's and lib/pq's errors have this method. It is "" for any other.
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// refused reports whether the server, or the client before it sent anything,
// says for certain that a single statement was not applied (I8).
//
// An ERROR ends its statement, and with it the transaction that a lone statement
// is: nothing is left of it. A connection that ends (FATAL: 57P01 by
// pg_terminate_backend, a crash, a pooler that gives up) may do so after the
// commit and before its acknowledgement, so that nothing is known (C10).
func refused(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		s := severity(pg)
		return s == "ERROR" || s == "FATAL" && refusedConnection(pg.Code)
	}
	if code := sqlState(err); code != "" { // of another client
		return !lostConnection(code)
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err)
}

func severity(pg *pgconn.PgError) string {
	if pg.SeverityUnlocalized != "" {
		return pg.SeverityUnlocalized
	}
	return pg.Severity
}

// refusedConnection: classes of a FATAL that comes before any statement: too many
// connections, wrong name, password or database, starting up.
func refusedConnection(code string) bool {
	return code == stateStarting || len(code) == 5 && (code[:2] == "28" || code[:2] == "53" || code[:2] == "3D")
}

// lostConnection: classes that a client reports of a connection that ended.
func lostConnection(code string) bool {
	return len(code) != 5 || code[:2] == "08" || code[:2] == "57" || code[:2] == "58" || code[:2] == "XX"
}

// repeatable: the server took the statement back because another transaction was
// in the way, and it may well succeed now. At READ COMMITTED that does not
// happen to our statements; a role's default_transaction_isolation may be
// another.
func repeatable(err error) bool {
	code := sqlState(err)
	return code == stateSerialization || code == stateDeadlock
}

// fail turns a client's error into one of the contract: one that matches
// [driver.ErrUnavailable] says that nothing was applied, any other leaves it
// open (I8). The client's error is wrapped; it has no password in it.
func fail(ctx context.Context, err error) error {
	if remedy := remedyFor(sqlState(err)); remedy != "" {
		err = fmt.Errorf("%w (%s)", err, remedy)
	}
	if refused(err) {
		err = fmt.Errorf("pgstore: %w: %w", driver.ErrUnavailable, err)
	} else {
		err = fmt.Errorf("pgstore: %w", err)
	}
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		err = fmt.Errorf("%w: %w", err, end)
	}
	return err
}

// remedyFor says what to do about what set-up forgot.
func remedyFor(code string) string {
	switch code {
	case stateNoTable:
		return "run Migrate, or name the table and its schema in Options"
	case stateNoRight:
		return "the role needs SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema; to migrate, CREATE on it"
	case stateReadOnly:
		return "this is a standby or a read-only session: connect to the primary"
	}
	return ""
}

// The checks below refuse parameters that no caller of the contract may send,
// before anything is sent to the server.

// maxKeyLen bounds a stored key, in bytes: well below what an index entry holds,
// compressed or not.
const maxKeyLen = 1024

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("pgstore: %w: it is empty", driver.ErrInvalidKey)
	case len(key) > maxKeyLen:
		return fmt.Errorf("pgstore: %w: it has %d bytes, more than %d", driver.ErrInvalidKey, len(key), maxKeyLen)
	case !utf8.ValidString(key):
		return fmt.Errorf("pgstore: %w: it is not valid UTF-8", driver.ErrInvalidKey)
	case !storableText(key):
		return fmt.Errorf("pgstore: %w: it contains a zero byte", driver.ErrInvalidKey)
	}
	return nil
}

func checkOwner(o driver.Owner) error {
	if o == (driver.Owner{}) {
		return errors.New("pgstore: the owner is zero: it must be random, and made anew for each claim")
	}
	return nil
}

func checkLease(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("pgstore: a lease of %v is shorter than 1ms", d)
	}
	return nil
}

func checkRetention(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("pgstore: a retention of %v is not positive", d)
	}
	return nil
}

func checkRef(ref driver.Ref) error {
	if err := checkKey(ref.Key); err != nil {
		return err
	}
	if ref.Owner == (driver.Owner{}) { // nobody's, also where an edit left it
		return errLeaseLost("the owner is zero")
	}
	return nil
}

func checkClaim(p *driver.ClaimParams) error {
	if err := checkKey(p.Key); err != nil {
		return err
	}
	return errors.Join(checkOwner(p.Owner), checkLease(p.Lease), checkRetention(p.Retention))
}

func checkRelease(p *driver.ReleaseParams) error {
	if p.NotExecuted && (p.Held || p.Doubt) {
		return errors.New("pgstore: NotExecuted contradicts Held and Doubt")
	}
	return checkRetention(p.Retention)
}
