package idem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// Cases from the field that are about errors: see cases_test.go.

// C38: marks are found wherever they are in a chain, and hide nothing.
func TestMarksAreFoundInsideOtherErrors(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"wrapped":             fmt.Errorf("charging: %w", idem.Permanent(errPermanent)),
		"joined":              errors.Join(idem.Permanent(errPermanent), errBoom),
		"joined behind":       errors.Join(errBoom, idem.Permanent(errPermanent)),
		"twice":               idem.Permanent(idem.Permanent(errPermanent)),
		"outermost":           idem.Permanent(idem.NotApplied(errPermanent)),
		"wrapped twice":       fmt.Errorf("a: %w", fmt.Errorf("b: %w", idem.Permanent(errPermanent))),
		"joined with a retry": errors.Join(idem.NotApplied(errBoom), idem.Permanent(errPermanent)),
	} {
		w := newWorld(t, nil, nil)
		n := 0
		_, got := w.store.Execute(t.Context(), "k", counted(&n, fails(err)))
		require.Same(t, err, got, name)
		require.ErrorIs(t, got, errPermanent, name)
		_, got = w.store.Execute(t.Context(), "k", counted(&n, returns("1")))
		require.ErrorIs(t, got, idem.ErrRecordedFailure, name)
		require.Equal(t, 1, n, name)
	}
	for _, mark := range []func(error) error{idem.Permanent, idem.Unknown, idem.NotApplied} {
		require.NoError(t, mark(nil))
		require.Equal(t, errBoom.Error(), mark(errBoom).Error())
		require.ErrorIs(t, mark(errBoom), errBoom)
	}
	// The more careful mark counts where two stand side by side.
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", fails(errors.Join(idem.Permanent(errPermanent), idem.Unknown(errUnknown))))
	require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
}

// declined is a typed error with a code, which wraps a sentinel.
type declined struct{ reason string }

func (d *declined) Error() string { return "declined: " + d.reason }
func (d *declined) Code() string  { return "card_declined" }
func (d *declined) Unwrap() error { return errPermanent }

// C56: a replayed failure has a provenance and a class.
func TestAReplayedFailureIsNotTakenForAFreshOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Errors: map[string]error{"card_declined": errPermanent, "other": errBoom}})
	fresh := fmt.Errorf("charging: %w", idem.Permanent(&declined{"no funds"}))
	_, err := w.store.Execute(t.Context(), "k", fails(fresh))
	require.Same(t, fresh, err)
	require.NotErrorIs(t, err, idem.ErrRecordedFailure)
	for name, s := range map[string]*idem.Store{
		"same process": w.store,
		"new process":  w.process(t, &idem.Options{Errors: map[string]error{"card_declined": errPermanent}}).store,
	} {
		var report idem.Result
		_, err = idem.Do(t.Context(), s, "k", func(context.Context, *idem.Claim) (int, error) { return 0, errBoom }, idem.ReportTo(&report))
		require.ErrorIs(t, err, idem.ErrRecordedFailure, name)
		require.ErrorIs(t, err, errPermanent, name)
		require.NotErrorIs(t, err, errBoom, name)
		var recorded *idem.RecordedError
		require.ErrorAs(t, err, &recorded)
		require.Equal(t, "card_declined", recorded.Code)
		require.Equal(t, fresh.Error(), recorded.Message)
		require.NotZero(t, recorded.RecordedAt)
		require.True(t, report.Replayed)
	}
	_, err = w.process(t, nil).store.Execute(t.Context(), "k", forbidden(t))
	require.ErrorIs(t, err, idem.ErrRecordedFailure)
	require.NotErrorIs(t, err, errPermanent, "nobody told this Store of the sentinel")
}

// C56: contention, contexts and stores are never stored as failures.
func TestNeitherContentionNorContextsNorStoresAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for i, err := range []error{
		context.Canceled, context.DeadlineExceeded, idem.ErrInProgress, &idem.InProgressError{}, idem.ErrUnavailable, idem.ErrLeaseLost,
		&idem.RecordedError{Code: "c"}, idem.ErrMaxRun,
	} {
		key := fmt.Sprint(i)
		_, got := w.store.Execute(t.Context(), key, fails(err))
		require.ErrorIs(t, got, err)
		require.Equal(t, driver.Released, w.record(t, key).State, "%v", err)
	}
}

// garbled answers claims as no backend should.
type garbled struct {
	driver.Backend
	res *driver.ClaimResult
	err error
}

func (g garbled) Claim(context.Context, *driver.ClaimParams) (*driver.ClaimResult, error) {
	return g.res, g.err
}

// C61: what cannot be read is reported, never taken for absent.
func TestAnUnreadableRecordRunsNothing(t *testing.T) {
	t.Parallel()
	rec := driver.Record{Token: 1, Attempt: 1, State: driver.Succeeded}
	unknownBody := rec
	unknownBody.Outcome.Body = 99
	for name, g := range map[string]garbled{
		"unreadable":          {err: driver.ErrCorrupt},
		"unreadable, wrapped": {err: fmt.Errorf("format 7: %w", driver.ErrCorrupt)},
		"no fact":             {res: &driver.ClaimResult{Record: rec}},
		"unknown fact":        {res: &driver.ClaimResult{Fact: 99, Record: rec}},
		"unknown body":        {res: &driver.ClaimResult{Fact: driver.Completed, Record: unknownBody}},
		"no token":            {res: &driver.ClaimResult{Fact: driver.Acquired}},
	} {
		for _, failOpen := range []bool{false, true} {
			for _, v := range ways() {
				g.Backend = newWorld(t, nil, nil).faults
				s := newStore(t, g, &idem.Options{Observer: idem.Discard, FailOpen: failOpen})
				_, err := v.call(t.Context(), s, "k", forbidden(t))
				require.ErrorIs(t, err, idem.ErrCorrupt, name)
				require.Equal(t, idem.EffectUnknown, infoOf(t, err).Effect, name)
			}
		}
	}
}
