package backoff_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

var errX = errors.New("x")

func classes() []backoff.Class {
	return []backoff.Class{backoff.Permanent, backoff.Transient, backoff.Throttled, backoff.Ambiguous}
}

// typed is an error whose methods cannot bear a nil receiver.
type typed struct{ cause error }

func (e *typed) Error() string { return "typed: " + e.cause.Error() }
func (e *typed) Unwrap() error { return e.cause }

func TestAMarkChangesTheClassAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range classes() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			cause := &typed{errX}
			err := backoff.Mark(cause, c)
			require.EqualError(t, err, cause.Error())
			require.ErrorIs(t, err, errX)
			var as *typed
			require.ErrorAs(t, err, &as)
			require.Same(t, cause, as)
			got, ok := backoff.Marked(err)
			require.True(t, ok)
			require.Equal(t, c, got)
			require.Equal(t, c, backoff.Classify(err))
		})
	}
}

func TestMarkOfNilIsNil(t *testing.T) { // C38
	t.Parallel()
	for _, c := range classes() {
		require.NoError(t, backoff.Mark(nil, c))
	}
}

func TestAMarkWithoutAClassIsNoMark(t *testing.T) {
	t.Parallel()
	for _, c := range []backoff.Class{0, backoff.Ambiguous + 1, 255} {
		require.Equal(t, errX, backoff.Mark(errX, c))
	}
}

// C38: a mark inside another error is found, however it got there.
func TestAMarkIsFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	mark := backoff.Mark
	other := errors.New("other")
	p := mark(errX, backoff.Permanent)
	for name, err := range map[string]error{
		"bare":                    p,
		"wrapped":                 fmt.Errorf("outer: %w", p),
		"wrapped often":           fmt.Errorf("a: %w", fmt.Errorf("b: %w", &typed{fmt.Errorf("c: %w", p)})),
		"first of a join":         errors.Join(p, other),
		"last of a join":          errors.Join(other, p),
		"beside a retryable one":  errors.Join(io.ErrUnexpectedEOF, p),
		"among two verbs":         fmt.Errorf("%w: %w", other, p),
		"join in a join":          errors.Join(other, fmt.Errorf("w: %w", errors.Join(other, p))),
		"marked twice":            mark(p, backoff.Permanent),
		"marked again, wrapped":   mark(fmt.Errorf("outer: %w", p), backoff.Permanent),
		"with a hint around it":   backoff.After(p, 0),
		"beside a typed nil":      errors.Join(p, (*typed)(nil)),
		"below an SQLSTATE 40001": &sqlError{"40001", p},
		"below a status 503":      &httpError{503, p},
		"in a join below a 503":   &httpError{503, errors.Join(other, p)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ok := backoff.Marked(err)
			require.True(t, ok)
			require.Equal(t, backoff.Permanent, c)
			require.Equal(t, backoff.Permanent, backoff.Classify(err))
			require.False(t, backoff.NothingSent(err))
			require.ErrorIs(t, err, errX)
		})
	}
}

func TestInAChainTheOutermostMarkCounts(t *testing.T) {
	t.Parallel()
	for _, inner := range classes() {
		for _, outer := range classes() {
			err := backoff.Mark(fmt.Errorf("outer: %w", backoff.Mark(errX, inner)), outer)
			got, ok := backoff.Marked(err)
			require.True(t, ok)
			require.Equal(t, outer, got, "%v around %v", outer, inner)

			over := backoff.Mark(errors.Join(errX, backoff.Mark(errX, inner)), outer)
			require.Equal(t, outer, backoff.Classify(over), "%v around a join with %v", outer, inner)
		}
	}
}

func TestAcrossAJoinTheMostCarefulMarkCounts(t *testing.T) {
	t.Parallel()
	byCare := []backoff.Class{backoff.Transient, backoff.Throttled, backoff.Permanent, backoff.Ambiguous}
	for i, less := range byCare {
		for _, more := range byCare[i:] {
			a, b := backoff.Mark(errX, less), fmt.Errorf("b: %w", backoff.Mark(io.EOF, more))
			for _, err := range []error{errors.Join(a, b), errors.Join(b, a), fmt.Errorf("%w, %w", a, b)} {
				got, ok := backoff.Marked(err)
				require.True(t, ok)
				require.Equal(t, more, got, "%v joined with %v", less, more)
			}
		}
	}
}

func TestAnErrorWithoutAMarkIsNotMarked(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errX, fmt.Errorf("w: %w", errX), errors.Join(errX, io.EOF), &typed{}} {
		c, ok := backoff.Marked(err)
		require.False(t, ok)
		require.Zero(t, c)
	}
}

// C38: an error's own As method cannot pretend to be a mark.
func TestAForeignAsMethodIsNotAsked(t *testing.T) {
	t.Parallel()
	_, ok := backoff.Marked(asAnything{})
	require.False(t, ok)
}

type asAnything struct{}

func (asAnything) Error() string { return "anything" }
func (asAnything) As(any) bool   { return true }

func TestANilPointerInAnErrorDoesNotPanic(t *testing.T) {
	t.Parallel()
	for _, hole := range []error{(*typed)(nil), (*net.OpError)(nil), (*net.DNSError)(nil)} {
		for name, err := range map[string]error{
			"bare":       hole,
			"wrapped":    &typed{hole},
			"joined":     errors.Join(hole, hole),
			"with hint":  backoff.After(hole, -1),
			"in a chain": fmt.Errorf("w: %w", hole),
		} {
			t.Run(fmt.Sprintf("%T %s", hole, name), func(t *testing.T) {
				t.Parallel()
				_, ok := backoff.Marked(err)
				require.False(t, ok)
				require.False(t, backoff.NothingSent(err))
				_, ok = backoff.Hint(err)
				require.False(t, ok)
				require.Equal(t, backoff.Permanent, backoff.Classify(err))
			})
		}
		marked := backoff.Mark(hole, backoff.Transient)
		require.Equal(t, "<nil>", marked.Error())
		require.Equal(t, "<nil>", backoff.After(hole, 1).Error())
		require.Equal(t, backoff.Transient, backoff.Classify(marked))
		require.True(t, backoff.NothingSent(marked))
	}
}

func TestClassesHaveNames(t *testing.T) {
	t.Parallel()
	want := []string{"unclassified", "permanent", "transient", "throttled", "ambiguous", "unclassified"}
	for i, s := range want {
		require.Equal(t, s, backoff.Class(i).String())
	}
}
