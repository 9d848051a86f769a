package main

import (
	"context"

	"github.com/idem-go/idem/internal/testenv"
)

// startServer starts a server in a temporary folder, on a free loopback port. It
// ends with stop, or with this process.
func startServer(ctx context.Context) (url string, stop func() error, err error) {
	s, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{})
	if err != nil {
		return "", nil, err
	}
	return s.URL(), s.Close, nil
}
