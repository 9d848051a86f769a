//go:build !linux

package main

import (
	"context"
	"errors"
)

var errNoServers = errors.New("servers are started on Linux only")

func startRedis(context.Context, bool) (*server, error) { return nil, errNoServers }

func startPostgres(context.Context) (*server, error) { return nil, errNoServers }
