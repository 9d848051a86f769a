package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"
)

// redisEnv names the server where the command line does not, as for the tests.
const redisEnv = "IDEM_TEST_REDIS_URL"

// openRedis opens a client of the server that the command line or the
// environment names, else of one that is started here: with an append-only file
// that is written through if it is to keep its data over a crash (durable), else
// with nothing on disk, so that it comes back empty. prefix is the run's own;
// close removes what is under it.
func (o *opened) openRedis(ctx context.Context, cfg *config, tell say, durable bool) (rdb *redis.Client, prefix string, err error) {
	prefix = "idem-replay:" + rand.Text() + ":"
	address := cmp.Or(cfg.redisURL, os.Getenv(redisEnv))
	own := address == "" || cfg.restart == "redis"
	if own {
		s, err := startRedis(ctx, durable)
		if err != nil {
			return nil, "", fmt.Errorf("%w; or name one with -redis-url", err)
		}
		tell("started a Redis server on %s", s.addr)
		o.servers["redis"], address = s, s.url
		o.closing(func(context.Context) error { return s.close() })
	}
	opts, err := redis.ParseURL(address)
	if err != nil {
		return nil, "", errURL("-redis-url", err)
	}
	quietRedis()
	opts.ContextTimeoutEnabled = true
	opts.PoolSize = cfg.workers + cfg.processes // the renewals come besides
	rdb = redis.NewClient(opts)
	o.closing(func(ctx context.Context) error {
		if own {
			return rdb.Close()
		}
		return errors.Join(sweep(ctx, rdb, prefix), rdb.Close())
	})
	return rdb, prefix, nil
}

// errURL is an error without the URL: there may be a password in it.
func errURL(flag string, err error) error {
	var quoted *url.Error
	if errors.As(err, &quoted) {
		err = quoted.Err
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// sweep removes what the run has left on somebody's server.
func sweep(ctx context.Context, rdb *redis.Client, prefix string) error {
	keys := rdb.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	var batch []string
	for more := true; more; {
		if more = keys.Next(ctx); more {
			batch = append(batch, keys.Val())
		}
		if len(batch) == 1000 || !more && len(batch) > 0 {
			if err := rdb.Unlink(ctx, batch...).Err(); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return keys.Err()
}

// quietRedis silences the client's own log: what fails is counted here, and the
// log would tear the progress bar apart.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(noLog{}) }) //nolint:gochecknoglobals // the client's log is global

type noLog struct{}

// Printf implements the client's logger.
func (noLog) Printf(context.Context, string, ...any) {}
