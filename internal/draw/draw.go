// Package draw is where idem gets the random numbers of its delays. They come
// from math/rand/v2, unless the context carries another source: a simulation
// gives its own, so that a seed replays exactly.
package draw

import (
	"context"
	"math/rand/v2"
)

type sourceKey struct{}

// With returns a context whose random numbers come from source: a function that
// returns a number in [0, n), for n > 0, and is safe for concurrent use.
func With(ctx context.Context, source func(n int64) int64) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Int64N returns a random number in [0, n). n must be positive.
func Int64N(ctx context.Context, n int64) int64 {
	if source, ok := ctx.Value(sourceKey{}).(func(int64) int64); ok {
		return source(n)
	}
	return rand.Int64N(n)
}
