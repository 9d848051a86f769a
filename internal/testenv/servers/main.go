// Command servers says where the servers are that tests start, and installs what
// is missing where it can: see package testenv. It fails, and says what to
// install, if one cannot be had.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/idem-go/idem/internal/testenv"
)

func main() {
	lines, err := testenv.Programs(context.Background())
	for _, line := range lines {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
