//go:build !linux

package main

import (
	"context"
	"errors"
)

func startServer(context.Context) (string, func() error, error) {
	return "", nil, errors.New("a server is started on Linux only")
}
