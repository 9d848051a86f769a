package examples

import (
	"context"
	"errors"

	"github.com/idem-go/idem/backoff"
	"github.com/sony/gobreaker/v2"
)

// Gobreaker returns a breaker of sony/gobreaker. Its two-step form fits as it is;
// what it needs is to be told that a caller who gave up is no failure of the
// target, for its default counts every error.
func Gobreaker(settings gobreaker.Settings) backoff.Breaker {
	settings.IsExcluded = func(err error) bool { return errors.Is(err, context.Canceled) }
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
}
