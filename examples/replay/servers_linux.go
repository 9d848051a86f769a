package main

import (
	"context"

	"github.com/idem-go/idem/internal/testenv"
)

// startRedis starts a server that writes each change through to its disk
// (durable), or that keeps nothing.
func startRedis(ctx context.Context, durable bool) (*server, error) {
	var cfg testenv.RedisConfig
	if durable {
		cfg.Args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	s, err := testenv.StartRedis(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &server{
		url: s.URL(), addr: s.Addr(), start: s.Start, close: s.Close,
		kill: func(context.Context) error { return s.Kill() },
	}, nil
}

// startPostgres starts a server with the settings that decide over durability as
// they are by default.
func startPostgres(ctx context.Context) (*server, error) {
	s, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Settings: []string{"shared_buffers=256MB", "max_wal_size=4GB"}})
	if err != nil {
		return nil, err
	}
	return &server{url: s.URL(), addr: s.Addr(), kill: s.Kill, start: s.Start, close: s.Close}, nil
}
