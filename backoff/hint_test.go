package backoff_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

type hintError struct {
	after time.Duration
	cause error
}

func (e *hintError) Error() string                 { return "hint" }
func (e *hintError) Unwrap() error                 { return e.cause }
func (e *hintError) RetryAfterHint() time.Duration { return e.after }

func TestAHintChangesNeitherTextNorClassNorCause(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{errX, &httpError{429, nil}, &typed{errX}, backoff.Mark(errX, backoff.Ambiguous)} {
		err := backoff.After(cause, time.Second)
		require.EqualError(t, err, cause.Error())
		require.ErrorIs(t, err, cause)
		require.Equal(t, backoff.Classify(cause), backoff.Classify(err))
		require.Equal(t, backoff.NothingSent(cause), backoff.NothingSent(err))
		d, ok := backoff.Hint(err)
		require.True(t, ok)
		require.Equal(t, time.Second, d)
	}
}

func TestAfterOfNilIsNil(t *testing.T) {
	t.Parallel()
	require.NoError(t, backoff.After(nil, time.Second))
}

func TestANegativeDurationIsNoHint(t *testing.T) {
	t.Parallel()
	require.Equal(t, errX, backoff.After(errX, -1))
	_, ok := backoff.Hint(&hintError{-time.Hour, nil})
	require.False(t, ok)
	d, ok := backoff.Hint(&hintError{-time.Hour, backoff.After(errX, 2)})
	require.True(t, ok)
	require.EqualValues(t, 2, d)
}

func TestHintsAreFoundAnywhereInTheTree(t *testing.T) {
	t.Parallel()
	after := backoff.After
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"zero is a hint":           {after(errX, 0), 0},
		"wrapped":                  {fmt.Errorf("w: %w", after(errX, 3)), 3},
		"below a mark":             {backoff.Mark(after(errX, 3), backoff.Throttled), 3},
		"a method":                 {fmt.Errorf("w: %w", &hintError{4, nil}), 4},
		"the outermost":            {after(&hintError{9, nil}, 3), 3},
		"the longest of a join":    {errors.Join(errX, after(errX, 3), &hintError{5, nil}, after(errX, 4)), 5},
		"a zero in a join":         {errors.Join(errX, after(errX, 0)), 0},
		"above a join":             {after(errors.Join(errX, after(errX, 3)), 1), 1},
		"beside a nil pointer":     {errors.Join((*typed)(nil), after(errX, 3)), 3},
		"as long as a server says": {after(errX, 1<<63-1), 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, ok := backoff.Hint(tc.err)
			require.True(t, ok)
			require.Equal(t, tc.want, d)
		})
	}
	for _, err := range []error{nil, errX, fmt.Errorf("w: %w", errX), errors.Join(errX, errX)} {
		_, ok := backoff.Hint(err)
		require.False(t, ok)
	}
}
