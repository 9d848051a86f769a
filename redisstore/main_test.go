package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/internal/testenv"
)

// quiet drops what the client library logs of the connections that tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(crashEnv) != "" {
		fmt.Fprintln(os.Stderr, crash())
		os.Exit(1)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil { // tests of a server wait more than they compute
		panic(err)
	}
	code := m.Run()
	if err := testenv.StopRedis(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
