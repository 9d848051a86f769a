package main

import "context"

// server is one that was started here, in a temporary folder and on a free
// loopback port. It ends with close, or with this process.
type server struct {
	url   string
	addr  string
	kill  func(context.Context) error // as a crash does
	start func(context.Context) error // again, with the data that it has kept
	close func() error
}
