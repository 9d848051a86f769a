package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Name and password of the superuser of every local server.
const (
	PostgresUser     = "postgres"
	PostgresPassword = "idem-test"
)

// PostgresConfig describes a local server.
type PostgresConfig struct {
	// Settings are added to the command line, as "name=value".
	Settings []string
	// TLS makes the server demand TLS with a client certificate from everybody.
	TLS bool
}

// PostgresServer is a local server with a folder of its own, which it loses when
// it is closed. Its methods must not be called at the same time.
type PostgresServer struct {
	cfg  PostgresConfig
	bin  string
	dir  string
	port int
	cred *account
	proc *daemon
	// Certs is the folder of ca.pem, client.pem and client.key, with TLS.
	Certs string
}

// StartPostgres makes a cluster in a temporary folder and starts it on a free
// loopback port. The caller must Close it; if this process dies, the kernel
// stops the server.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (_ *PostgresServer, err error) {
	s, err := newPostgres(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if err := s.initialise(ctx); err != nil {
		return nil, err
	}
	if cfg.TLS {
		if err := s.writeCerts(); err != nil {
			return nil, err
		}
	}
	// Nobody listened on the port a moment ago, which is no promise.
	for range 3 {
		if err = s.Start(ctx); err == nil || s.proc != nil && s.proc.alive() {
			break
		}
		if port, err := freePort(); err == nil {
			s.port = port
		}
	}
	return s, err
}

// newPostgres finds the binaries and makes the folder.
func newPostgres(ctx context.Context, cfg PostgresConfig) (*PostgresServer, error) {
	program, err := wantedPostgres().get(ctx, installer{})
	if err != nil {
		return nil, err
	}
	cred, err := serverUser()
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("postgres")
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{cfg: cfg, bin: filepath.Dir(program), dir: dir, cred: cred}
	if s.port, err = freePort(); err == nil {
		err = own(cred, dir)
	}
	return s, err
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }
func (s *PostgresServer) log() string  { return filepath.Join(s.dir, "log") }

// Log returns the end of the server's log.
func (s *PostgresServer) Log() string { return logTail(s.log()) }

func (s *PostgresServer) initialise(ctx context.Context) error {
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(PostgresPassword), 0o600); err != nil {
		return err
	}
	if err := own(s.cred, password); err != nil {
		return err
	}
	if err := run(ctx, s.cred, s.dir, filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", PostgresUser,
		"-A", "scram-sha-256", "--pwfile="+password, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"); err != nil {
		return err
	}
	hba := "host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n"
	if s.cfg.TLS {
		hba = "hostssl all all 127.0.0.1/32 cert\n"
	}
	return s.write("data/pg_hba.conf", hba)
}

// write puts a file of the server's user into the folder.
func (s *PostgresServer) write(name, text string) error {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return own(s.cred, path)
}

// Start starts the server again, with the port and the data that it had, and
// waits until it answers. A server that runs is left alone.
func (s *PostgresServer) Start(ctx context.Context) error {
	if s.proc != nil && s.proc.alive() {
		return nil
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, set := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=400", "wal_level=replica",
		"max_wal_senders=10", "wal_keep_size=64MB", "hot_standby=on", "logging_collector=off", "log_min_messages=warning",
		"autovacuum_naptime=5s",
	}, s.cfg.Settings...) {
		args = append(args, "-c", set)
	}
	// Processes of a server that was killed may still hold its memory; they end by
	// themselves.
	var failed error
	err := every(ctx, 50*time.Millisecond, 2*time.Minute, func(context.Context) error {
		err := s.startOnce(ctx, args)
		if errors.Is(err, errEnded) && strings.Contains(s.Log(), "pre-existing shared memory block") {
			return err
		}
		failed = err
		return nil
	})
	return errors.Join(err, failed)
}

// startOnce starts the program and waits for a query that is answered.
func (s *PostgresServer) startOnce(ctx context.Context, args []string) (err error) {
	// An immediate shutdown: the parent is gone, and so is whoever wants the data.
	s.proc, err = startDaemon(s.cred, s.log(), syscall.SIGQUIT, filepath.Join(s.bin, "postgres"), args...)
	if err != nil {
		return err
	}
	err = s.proc.until(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		return conn.Ping(ctx)
	})
	if err != nil {
		return fmt.Errorf("the Postgres server does not answer: %w\n%s", err, s.Log())
	}
	return nil
}

// URL returns the connection string of the superuser.
func (s *PostgresServer) URL() string {
	return s.URLOf(PostgresUser, PostgresPassword, "postgres")
}

// URLOf returns the connection string of a user and a database.
func (s *PostgresServer) URLOf(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: s.Addr(), Path: "/" + database}
	if !s.cfg.TLS {
		u.RawQuery = "sslmode=disable"
		return u.String()
	}
	u.User = url.User(user)
	u.RawQuery = url.Values{
		"sslmode": {"verify-full"}, "sslrootcert": {filepath.Join(s.Certs, "ca.pem")},
		"sslcert": {filepath.Join(s.Certs, "client.pem")}, "sslkey": {filepath.Join(s.Certs, "client.key")},
	}.Encode()
	return u.String()
}

// Addr returns host and port.
func (s *PostgresServer) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Kill ends the server with SIGKILL, as a crash does, and waits until its
// children have noticed.
func (s *PostgresServer) Kill(ctx context.Context) error {
	if err := s.proc.signal(syscall.SIGKILL); err != nil {
		return err
	}
	// The children notice that the postmaster is gone; until the last one has
	// ended, the shared memory is in use and no new server can start.
	return every(ctx, 20*time.Millisecond, time.Minute, func(context.Context) error {
		if killGroup(s.proc.cmd.Process.Pid) {
			return errors.New("a process of the killed server is still there")
		}
		return nil
	})
}

// Stop ends the server: connections are cut, what is committed is kept.
func (s *PostgresServer) Stop() error { return s.proc.signal(syscall.SIGINT) }

// Promote makes a standby a primary.
func (s *PostgresServer) Promote(ctx context.Context) error {
	return run(ctx, s.cred, s.dir, filepath.Join(s.bin, "pg_ctl"), "promote", "-w", "-D", s.data())
}

// Close stops the server at once and removes its folder.
func (s *PostgresServer) Close() error {
	var err error
	if s.proc != nil {
		err = s.proc.signal(syscall.SIGQUIT)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Standby starts a streaming copy of s that applies changes only after delay.
func (s *PostgresServer) Standby(ctx context.Context, delay time.Duration) (_ *PostgresServer, err error) {
	c, err := newPostgres(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s", s.port, PostgresUser, PostgresPassword)
	if err := run(ctx, c.cred, c.dir, filepath.Join(c.bin, "pg_basebackup"), "-D", c.data(), "-d", from, "-R", "-X", "stream", "-c", "fast"); err != nil {
		return nil, err
	}
	c.cfg.Settings = append(c.cfg.Settings, fmt.Sprintf("recovery_min_apply_delay=%dms", delay.Milliseconds()))
	return c, c.Start(ctx)
}
