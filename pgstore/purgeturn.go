package pgstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// askTurn bounds opening a connection and asking for the turn.
const askTurn = 30 * time.Second

// turn is the right to purge: a lock that the connection's session holds, and
// that ends with it.
type turn struct{ conn *pgx.Conn }

// keepalives lets the server notice within a minute that the turn's machine is gone.
const keepalives = "SELECT pg_catalog.set_config('tcp_keepalives_idle', '30', false)," +
	" pg_catalog.set_config('tcp_keepalives_interval', '10', false), pg_catalog.set_config('tcp_keepalives_count', '3', false)"

// takeTurn opens a connection and asks for the turn: nil if another has it.
func (l *purgeLoop) takeTurn(ctx context.Context) (_ *turn, err error) {
	asking, cancel := context.WithTimeout(ctx, askTurn)
	defer cancel()
	conn, err := l.o.Connect(asking)
	if err != nil {
		return nil, fail(ctx, err)
	}
	t := &turn{conn: conn}
	got := false
	defer func() {
		if !got {
			t.giveUp(ctx)
		}
	}()
	// A proxy that pools tells another process number than the server's.
	var pid int64
	if _, err := one(asking, conn, "SELECT pg_catalog.pg_backend_pid()::bigint", []any{&pid}, nil); err != nil {
		return nil, fail(ctx, err)
	}
	if pid != int64(conn.PgConn().PID()) {
		return nil, fmt.Errorf("pgstore: %w", ErrPooledConnection)
	}
	if _, err := one(asking, conn, "SELECT pg_catalog.pg_try_advisory_lock($1::bigint)", []any{&got}, []any{l.b.names.turnNumber()}); err != nil {
		got = false
		return nil, fail(ctx, err)
	}
	if !got {
		return nil, nil //nolint:nilnil // it is no error that another has the turn
	}
	// A machine that is gone without a word keeps the lock until the server notices,
	// which by the defaults of most systems takes two hours. What cannot be set is
	// left as it is.
	_, _ = conn.Exec(asking, keepalives)
	return t, nil
}

// giveUp ends the turn: it closes the session, and the lock is the session's.
func (t *turn) giveUp(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = t.conn.Close(closing) // the server notices a connection that is gone, too
}

// turnNumber is the number of the lock: of the table, within its database.
func (n *names) turnNumber() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("idem purge " + n.table)) // never fails
	return int64(h.Sum64())                         //nolint:gosec // all bits count, none as a sign
}

// behind is how long ago the first retention ended; 0 if none has.
func (u *purger) behind(ctx context.Context) (d time.Duration, err error) {
	var micros int64
	err = u.transact(ctx, u.b.lockWait, u.sql.behind, []any{&micros}, nil)
	if err != nil {
		return 0, fail(ctx, err)
	}
	return time.Duration(micros) * time.Microsecond, nil
}
