package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/pgstore"
	"github.com/idem-go/idem/redisstore"
)

// stores are what -store can name, in the order in which -compare runs them.
var stores = []string{"memory", "redis", "postgres", "tiered"} //nolint:gochecknoglobals // a constant, but for the language

// opened is a backend that all simulated processes share.
type opened struct {
	backend driver.Backend
	tiers   []*tier
	servers map[string]*server
	schema  string // of Postgres, the run's own
	closers []func(context.Context) error
}

// say is how what happens is told.
type say func(format string, args ...any)

// openStore opens the backend that the command line names, and starts the
// servers that it needs and that the command line does not name. The caller must
// close what is returned, also after ctx has ended.
func openStore(ctx context.Context, cfg *config, tell say) (*opened, error) {
	o := &opened{servers: make(map[string]*server)}
	err := o.open(ctx, cfg, tell)
	if err == nil {
		err = o.check(ctx, tell)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-store %s: %w", cfg.store, err), o.close(context.WithoutCancel(ctx)))
	}
	return o, nil
}

func (o *opened) open(ctx context.Context, cfg *config, tell say) error {
	switch cfg.store {
	case "memory":
		o.backend = o.counted("memory", memstore.New(nil))
		return nil
	case "redis":
		rdb, prefix, err := o.openRedis(ctx, cfg, tell, true)
		if err != nil {
			return err
		}
		b, err := redisstore.New(rdb, &redisstore.Options{Prefix: prefix})
		o.backend = o.counted("redis", b)
		return err
	case "postgres":
		b, err := o.openPostgres(ctx, cfg, tell)
		o.backend = o.counted("postgres", b)
		return err
	case "tiered":
		return o.openTiered(ctx, cfg, tell)
	}
	return errors.New("there is no such store")
}

// counted adds a tier.
func (o *opened) counted(name string, b driver.Backend) driver.Backend {
	t := &tier{name: name}
	o.tiers = append(o.tiers, t)
	return &countedBackend{b, t}
}

// openPostgres makes a schema of the run's own, which close drops.
func (o *opened) openPostgres(ctx context.Context, cfg *config, tell say) (*pgstore.Backend, error) {
	pool, schema, err := o.postgresPool(ctx, cfg, tell)
	if err != nil {
		return nil, err
	}
	o.schema = schema
	b, err := pgstore.New(pool, &pgstore.Options{Schema: schema})
	if err != nil {
		return nil, err
	}
	return b, b.Migrate(ctx)
}

// check asks the backend for reasons to refuse its server.
func (o *opened) check(ctx context.Context, tell say) error {
	checker, ok := driver.As[driver.Checker](o.backend)
	if !ok {
		return nil
	}
	err := checker.Check(ctx)
	if err == nil || !driver.OnlyWarnings(err) {
		return err
	}
	tell("%v", err)
	return nil
}

// restart kills the server of a tier and starts it again.
func (o *opened) restart(ctx context.Context, name string) error {
	s := o.servers[name]
	if s == nil {
		return fmt.Errorf("-restart: no %s was started here", name)
	}
	if err := s.kill(ctx); err != nil {
		return fmt.Errorf("-restart: kill %s: %w", name, err)
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("-restart: %w", err)
	}
	return nil
}

// closing has f called by close, before what was added earlier.
func (o *opened) closing(f func(context.Context) error) { o.closers = append(o.closers, f) }

// close gives back what the backend was opened with, and stops the servers that
// were started.
func (o *opened) close(ctx context.Context) error {
	var err error
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f(ctx))
	}
	return err
}
