package main

import (
	"fmt"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// opened is a backend that all simulated processes share.
type opened struct {
	backend driver.Backend
	// close gives back what the backend was opened with.
	close func() error
}

// openStore opens the backend that -store names.
func openStore(name string) (*opened, error) {
	if name == "memory" {
		return &opened{backend: memstore.New(nil), close: func() error { return nil }}, nil
	}
	return nil, fmt.Errorf("there is no store %q", name)
}
