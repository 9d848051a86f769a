package testenv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// The user of a local server with an ACL who may do everything.
const (
	RedisAdmin         = "idem-admin"
	RedisAdminPassword = "idem-test"
)

// RedisConfig describes a local server.
type RedisConfig struct {
	// Args are added to the command line, as in {"--maxmemory", "10mb"}.
	Args []string
	// ACL has lines of an ACL file, beside the one of RedisAdmin. Without it
	// everybody may do everything.
	ACL string
	// TLS makes the server demand TLS with a client certificate from everybody.
	TLS bool

	sentinel string // lines of a sentinel's configuration
}

// RedisServer is a local server with a folder of its own, which it loses when it
// is closed. Its methods must not be called at the same time.
type RedisServer struct {
	cfg  RedisConfig
	path string
	dir  string
	port int
	proc *daemon
	tls  *tls.Config // of a client, with cfg.TLS
}

// StartRedis starts a server on a free loopback port, with a temporary folder.
// The caller must Close it; if this process dies, the kernel stops the server.
func StartRedis(ctx context.Context, cfg RedisConfig) (_ *RedisServer, err error) {
	s := &RedisServer{cfg: cfg}
	if s.path, err = wantedRedis().get(ctx, installer{}); err != nil {
		return nil, err
	}
	if s.dir, err = tempDir("redis"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if cfg.TLS {
		if err := s.writeCerts(); err != nil {
			return nil, err
		}
	}
	acl := fmt.Sprintf("user %s on >%s ~* &* +@all\n%s\n", RedisAdmin, RedisAdminPassword, cfg.ACL)
	if err := os.WriteFile(s.file("users.acl"), []byte(acl), 0o600); err != nil {
		return nil, err
	}
	// Nobody listened on the port a moment ago, which is no promise.
	for range 5 {
		if s.port, err = freePort(); err == nil {
			err = s.Start(ctx)
		}
		if err == nil || s.proc != nil && s.proc.alive() {
			break
		}
	}
	return s, err
}

func (s *RedisServer) file(name string) string { return filepath.Join(s.dir, name) }

// Log returns the end of the server's log.
func (s *RedisServer) Log() string { return logTail(s.file("log")) }

// Addr returns host and port.
func (s *RedisServer) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the URL of the server without a user.
func (s *RedisServer) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/0"}
	if s.cfg.TLS {
		u.Scheme = "rediss"
	}
	return u.String()
}

// TLS returns the configuration of a client with a certificate that the server
// accepts; nil without RedisConfig.TLS. The caller may change it.
func (s *RedisServer) TLS() *tls.Config { return s.tls.Clone() }

// Start starts the server again, with the port and the data that it had, and
// waits until it answers. A server that runs is left alone.
func (s *RedisServer) Start(ctx context.Context) error {
	if s.proc != nil && s.proc.alive() {
		return nil
	}
	args, err := s.args()
	if err != nil {
		return err
	}
	if s.proc, err = startDaemon(nil, s.file("log"), syscall.SIGKILL, s.path, args...); err != nil {
		return err
	}
	err = s.proc.until(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr()) // first, because the client logs what fails
		if err != nil {
			return err
		}
		_ = conn.Close()
		_, err = s.Do(ctx, "PING")
		return err
	})
	if err != nil {
		return fmt.Errorf("the Redis server does not answer: %w\n%s", err, s.Log())
	}
	return nil
}

// args of the command line.
func (s *RedisServer) args() ([]string, error) {
	if s.cfg.sentinel != "" {
		conf := s.file("sentinel.conf")
		if _, err := os.Stat(conf); err == nil { // a sentinel keeps its state there
			return []string{conf, "--sentinel"}, nil
		}
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s", s.port, s.dir, s.cfg.sentinel)
		return []string{conf, "--sentinel"}, os.WriteFile(conf, []byte(text), 0o600)
	}
	args := []string{"--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}
	if s.cfg.TLS {
		args = append(args, "--port", "0", "--tls-port", strconv.Itoa(s.port), "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", s.file("ca.pem"), "--tls-cert-file", s.file("server.pem"), "--tls-key-file", s.file("server.key"))
	} else {
		args = append(args, "--port", strconv.Itoa(s.port))
	}
	if s.cfg.ACL != "" {
		args = append(args, "--aclfile", s.file("users.acl"))
	}
	return append(args, s.cfg.Args...), nil
}

// Do runs one command as a user who may do everything, on a connection of its
// own.
func (s *RedisServer) Do(ctx context.Context, args ...any) (any, error) {
	opts := &redis.Options{Addr: s.Addr(), TLSConfig: s.tls, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, Protocol: 2, ContextTimeoutEnabled: true}
	if s.cfg.ACL != "" {
		opts.Username, opts.Password = RedisAdmin, RedisAdminPassword
	}
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()
	return rdb.Do(ctx, args...).Result()
}

// Kill ends the server with SIGKILL, as a crash does.
func (s *RedisServer) Kill() error { return s.proc.signal(syscall.SIGKILL) }

// Stop ends the server as an operator does.
func (s *RedisServer) Stop() error { return s.proc.signal(syscall.SIGTERM) }

// Freeze stops the server in its tracks: connections stay open, nothing is
// answered. [RedisServer.Thaw] lets it go on.
func (s *RedisServer) Freeze() error { return freeze(s.proc.cmd.Process) }

// Thaw ends a Freeze.
func (s *RedisServer) Thaw() error { return thaw(s.proc.cmd.Process) }

// AppendOnlyFile returns the path of the file to which commands are appended
// now.
func (s *RedisServer) AppendOnlyFile() (string, error) {
	files, err := filepath.Glob(s.file("appendonlydir/*.incr.aof"))
	if err == nil && len(files) == 0 {
		files, err = filepath.Glob(s.file("appendonly.aof")) // before version 7
	}
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d append-only files", len(files))
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// SnapshotFile returns the path of the file that SAVE writes and a server
// without an append-only file starts from.
func (s *RedisServer) SnapshotFile() string { return s.file("dump.rdb") }

// Close ends the server at once and removes its folder.
func (s *RedisServer) Close() error {
	var err error
	if s.proc != nil {
		err = s.proc.signal(syscall.SIGKILL)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// writeCerts makes an authority, a certificate of the server and one of a
// client.
func (s *RedisServer) writeCerts() error {
	ca, err := NewAuthority()
	if err != nil {
		return err
	}
	server, err := ca.Issue("localhost")
	if err != nil {
		return err
	}
	client, err := ca.Issue("client")
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(client.PEM, client.Key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	s.tls = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	for name, b := range map[string][]byte{"ca.pem": ca.PEM, "server.pem": server.PEM, "server.key": server.Key} {
		if err := os.WriteFile(s.file(name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
