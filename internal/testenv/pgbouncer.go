package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerConfig describes a proxy in transaction mode.
type PgBouncerConfig struct {
	// PoolSize is the number of connections to the server. The default is 2.
	PoolSize int
}

// PgBouncer is a transaction-pooling proxy before a Postgres server.
type PgBouncer struct {
	dir  string
	port int
	proc *daemon
}

// StartPgBouncer starts a proxy before the server that target, a connection
// string, names. The caller must Close it.
func StartPgBouncer(ctx context.Context, target string, cfg PgBouncerConfig) (_ *PgBouncer, err error) {
	path, err := wantedPgBouncer().get(ctx, installer{})
	if err != nil {
		return nil, err
	}
	to, err := pgx.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	cred, err := serverUser()
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{}
	if b.dir, err = tempDir("pgbouncer"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	if b.port, err = freePort(); err != nil {
		return nil, err
	}
	ini, users := filepath.Join(b.dir, "pgbouncer.ini"), filepath.Join(b.dir, "users.txt")
	err = errors.Join(
		os.WriteFile(ini, []byte(b.ini(to, cfg)), 0o600),
		os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", to.User, to.Password), 0o600),
		own(cred, b.dir, ini, users),
	)
	if err != nil {
		return nil, err
	}
	b.proc, err = startDaemon(cred, filepath.Join(b.dir, "log"), syscall.SIGTERM, path, ini)
	if err != nil {
		return nil, err
	}
	return b, b.ready(ctx, target)
}

func (b *PgBouncer) ini(to *pgx.ConnConfig, cfg PgBouncerConfig) string {
	size := cfg.PoolSize
	if size == 0 {
		size = 2
	}
	return fmt.Sprintf("[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = plain\nauth_file = %s\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = %d\n",
		to.Host, to.Port, b.port, filepath.Join(b.dir, "users.txt"), size)
}

func (b *PgBouncer) ready(ctx context.Context, target string) error {
	url, err := b.URL(target)
	if err != nil {
		return err
	}
	err = b.proc.until(ctx, func(ctx context.Context) error {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			return err
		}
		cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		return conn.Ping(ctx)
	})
	if err != nil {
		return fmt.Errorf("pgbouncer does not answer: %w\n%s", err, logTail(filepath.Join(b.dir, "log")))
	}
	return nil
}

// URL returns target with the proxy's address in place of the server's.
func (b *PgBouncer) URL(target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", errors.New("the target is no URL")
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(b.port)
	return u.String(), nil
}

// Close stops the proxy and removes its folder.
func (b *PgBouncer) Close() error {
	var err error
	if b.proc != nil {
		err = b.proc.signal(syscall.SIGTERM)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
