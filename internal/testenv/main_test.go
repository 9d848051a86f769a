package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/idem-go/idem/internal/testenv"
)

// doomed names the variable with which this binary, instead of testing, starts
// servers, tells where they are, and waits to be killed.
const doomed = "IDEM_TESTENV_DOOMED"

func TestMain(m *testing.M) {
	if os.Getenv(doomed) != "" {
		if err := startAndWait(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(testenv.StopPostgres(), testenv.StopRedis()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func startAndWait(ctx context.Context) error {
	r, err := testenv.StartRedis(ctx, testenv.RedisConfig{})
	if err != nil {
		return err
	}
	p, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{})
	if err != nil {
		return err
	}
	b, err := testenv.StartPgBouncer(ctx, p.URL(), testenv.PgBouncerConfig{})
	if err != nil {
		return err
	}
	url, err := b.URL(p.URL())
	if err != nil {
		return err
	}
	fmt.Println(r.Addr())
	fmt.Println(p.Addr())
	fmt.Println(url)
	select {}
}
