package testenv_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/idem-go/idem/internal/testenv"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(testenv.StopPostgres(), testenv.StopRedis()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
