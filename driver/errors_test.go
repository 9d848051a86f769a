package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
)

func TestOnlyWarningsWantsAWarningInEveryBranch(t *testing.T) {
	t.Parallel()
	warn := &driver.Finding{Severity: driver.Warn, Code: "w", Remedy: "see to it"}
	refuse := &driver.Finding{Severity: driver.Refuse, Code: "r", Remedy: "change it"}
	other := errors.New("could not look")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, true},
		{warn, true},
		{refuse, false},
		{other, false},
		{errors.Join(warn, warn), true},
		{errors.Join(warn, refuse), false},
		{errors.Join(warn, other), false},
		{fmt.Errorf("at startup: %w", warn), true},
		{fmt.Errorf("at startup: %w", other), false},
		{fmt.Errorf("two: %w, %w", warn, errors.Join(warn, refuse)), false},
	} {
		require.Equal(t, c.want, driver.OnlyWarnings(c.err), "%v", c.err)
	}
	require.Equal(t, "warning: w: see to it", warn.Error())
	require.Equal(t, "refused: r: change it", refuse.Error())
	require.Equal(t, "no severity", driver.Severity(0).String())
}

// I8: only the sentinels say that a call changed nothing.
func TestOnlyASentinelSaysThatACallHadNoEffect(t *testing.T) {
	t.Parallel()
	for _, s := range []error{driver.ErrLeaseLost, driver.ErrConflict, driver.ErrNotFound, driver.ErrCorrupt, driver.ErrUnavailable, driver.ErrInvalidKey} {
		require.True(t, driver.NoEffect(s))
		require.True(t, driver.NoEffect(fmt.Errorf("backend: %w", s)))
	}
	require.False(t, driver.NoEffect(nil))
	require.False(t, driver.NoEffect(errors.New("connection reset")))
}

func TestEveryFactAndStateHasItsWord(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for f := driver.Acquired; f <= driver.Mismatch; f++ {
		seen[f.String()] = true
	}
	for s := driver.Claimed; s <= driver.Unknown; s++ {
		seen[s.String()] = true
	}
	require.Len(t, seen, 11, "none is another's, and none is missing")
	require.Equal(t, "no fact", driver.Fact(0).String())
	require.Equal(t, "no state", driver.State(0).String())
	require.False(t, seen["no fact"] || seen["no state"])
}
