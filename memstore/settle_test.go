package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// I3, C02. Nothing that a former owner sends has an effect.
func TestAFormerOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]func(stale, current driver.Ref) driver.Ref{
		"owner and token of before":         func(stale, _ driver.Ref) driver.Ref { return stale },
		"owner of before, token of now":     func(stale, current driver.Ref) driver.Ref { stale.Token = current.Token; return stale },
		"owner of now, token of before":     func(stale, current driver.Ref) driver.Ref { current.Token = stale.Token; return current },
		"owner of before, whatever token":   func(stale, _ driver.Ref) driver.Ref { stale.Token = 0; return stale },
		"a key that was never claimed":      func(_, current driver.Ref) driver.Ref { current.Key = "other"; return current },
		"an owner who never claimed at all": func(_, current driver.Ref) driver.Ref { current.Owner = owner(99); return current },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				stale := acquire(t, b, 1)
				time.Sleep(lease)
				r := ref(stale, acquire(t, b, 2))
				before := inspect(t, b, key)
				for method, err := range everyStep(t.Context(), b, r) {
					switch method {
					case "Renew", "Annotate", "Complete", "Release":
						require.ErrorIs(t, err, driver.ErrLeaseLost, method)
					}
				}
				require.Equal(t, before, inspect(t, b, key))
			})
		})
	}
}

// I3. The owner may settle after the lease's end, until somebody takes over.
func TestAnOwnerMayActAfterTheLeaseHasEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1)
		time.Sleep(2 * lease)
		require.Equal(t, driver.Unknown, inspect(t, b, key).State)
		require.NoError(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "r"}}}))
		require.Equal(t, driver.Unknown, inspect(t, b, key).State, "Annotate does not touch the lease")
		require.NoError(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: time.Second, Retention: retention}))
		rec := inspect(t, b, key)
		require.Equal(t, driver.Claimed, rec.State)
		require.Equal(t, time.Second, rec.LeaseLeft)
		time.Sleep(2 * lease)
		complete(t, b, ref, "late")
		require.Equal(t, "late", string(inspect(t, b, key).Outcome.Value))
	})
}

// I6, I4.
func TestCompleteIsIdempotentForTheSameOutcomeOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1)
		complete(t, b, ref, "v")
		time.Sleep(time.Minute)
		before := inspect(t, b, key)
		complete(t, b, ref, "v")
		complete(t, b, driver.Ref{Key: key, Owner: ref.Owner}, "v")
		require.ErrorIs(t, b.Complete(t.Context(), ref, success("w")), driver.ErrLeaseLost)
		for method, err := range everyStep(t.Context(), b, ref) {
			switch method {
			case "Renew", "Annotate", "Release":
				require.ErrorIs(t, err, driver.ErrLeaseLost, method)
			}
			if method == "Reset" {
				require.NoError(t, err) // the one step that may
			}
		}
		require.Equal(t, retention-time.Minute, before.RetentionLeft)
		require.Equal(t, "v", string(before.Outcome.Value))
	})
}

// I4 and I13: repeating Complete neither changes the outcome nor its retention.
func TestARepeatedCompleteDoesNotExtendTheRetention(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1)
		time.Sleep(lease) // C65: the retention counts from the completion
		complete(t, b, ref, "v")
		time.Sleep(retention - time.Nanosecond)
		complete(t, b, ref, "v")
		inspect(t, b, key)
		time.Sleep(time.Nanosecond)
		_, err := b.Inspect(t.Context(), key)
		require.ErrorIs(t, err, driver.ErrNotFound)
		require.ErrorIs(t, b.Complete(t.Context(), ref, success("v")), driver.ErrLeaseLost, "there is no claim any more")
	})
}

func TestReleaseLeavesWhatItsParametersSay(t *testing.T) {
	t.Parallel()
	takenHeld := func(t *testing.T, b *memstore.Backend) driver.Ref {
		release(t, b, acquire(t, b, 1), driver.ReleaseParams{Held: true})
		return acquire(t, b, 2)
	}
	fresh := func(t *testing.T, b *memstore.Backend) driver.Ref { return acquire(t, b, 2) }
	for name, c := range map[string]struct {
		claim       func(t *testing.T, b *memstore.Backend) driver.Ref
		p           driver.ReleaseParams
		state       driver.State
		doubt, held bool
	}{
		"fresh, nothing said":           {fresh, driver.ReleaseParams{}, driver.Released, false, false},
		"fresh, in doubt":               {fresh, driver.ReleaseParams{Doubt: true}, driver.Released, true, false},
		"fresh, held":                   {fresh, driver.ReleaseParams{Held: true}, driver.Unknown, true, true},
		"fresh, not executed":           {fresh, driver.ReleaseParams{NotExecuted: true}, driver.Released, false, false},
		"taken while held, nothing":     {takenHeld, driver.ReleaseParams{}, driver.Unknown, true, true},
		"taken while held, doubt":       {takenHeld, driver.ReleaseParams{Doubt: true}, driver.Unknown, true, true},
		"taken while held, not execut.": {takenHeld, driver.ReleaseParams{NotExecuted: true}, driver.Released, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				ref := c.claim(t, b)
				release(t, b, ref, c.p)
				rec := inspect(t, b, key)
				require.Equal(t, c.state.String(), rec.State.String())
				require.Equal(t, c.doubt, rec.Doubt)
				require.Equal(t, c.held, rec.Held)
				time.Sleep(time.Second)
				release(t, b, ref, driver.ReleaseParams{Held: true}) // said again: changes nothing (I6)
				again := inspect(t, b, key)
				require.Equal(t, rec.State, again.State)
				if c.held {
					require.Zero(t, again.RetentionLeft, "held records never end by themselves (I13)")
				} else {
					require.Equal(t, retention-time.Second, again.RetentionLeft)
				}
				require.ErrorIs(t, b.Complete(t.Context(), ref, success("v")), driver.ErrLeaseLost)
			})
		})
	}
}

// The windows of an attempt that was not executed are those of the next one.
func TestAReleaseOfWhatWasNotExecutedForgetsTheProviders(t *testing.T) {
	t.Parallel()
	for _, notExecuted := range []bool{false, true} {
		b := memstore.New(nil)
		ref := acquire(t, b, 1, func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
		})
		release(t, b, ref, driver.ReleaseParams{NotExecuted: notExecuted})
		require.Equal(t, notExecuted, len(inspect(t, b, key).Providers) == 0)
	}
}

func TestReleaseAndCompleteActForWhateverTokenTheOwnerHolds(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	ref := acquire(t, b, 1)
	ref.Token = 0
	require.ErrorIs(t, b.Renew(t.Context(), ref, &driver.RenewParams{Lease: lease, Retention: retention}), driver.ErrLeaseLost)
	require.ErrorIs(t, b.Annotate(t.Context(), ref, &driver.AnnotateParams{}), driver.ErrLeaseLost)
	release(t, b, ref, driver.ReleaseParams{})
	require.Equal(t, driver.Released, inspect(t, b, key).State)
	ref = acquire(t, b, 2)
	ref.Token = 0
	complete(t, b, ref, "v")
	require.Equal(t, driver.Succeeded, inspect(t, b, key).State)
}

func TestCompleteClearsHeldAndKeepsDoubt(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	release(t, b, acquire(t, b, 1), driver.ReleaseParams{Held: true})
	ref := acquire(t, b, 2)
	require.NoError(t, b.Complete(t.Context(), ref, &driver.CompleteParams{
		Outcome: driver.Outcome{Failed: true, Code: "declined", Message: "no"}, Retention: retention, Audit: &driver.Audit{By: "ann", Why: "seen"},
	}))
	rec := inspect(t, b, key)
	require.Equal(t, driver.Failed, rec.State)
	require.True(t, rec.Doubt)
	require.False(t, rec.Held)
	require.EqualValues(t, 1, rec.Revision)
	require.Equal(t, driver.FormatVersion, rec.Format)
	require.Equal(t, "ann", rec.Audit.By)
	require.Equal(t, rec.RecordedAt, rec.Audit.At)
}

func TestAnnotateAddsWhatIsNewAndSaysNotExecuted(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		release(t, b, acquire(t, b, 1, func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Hour}}
		}), driver.ReleaseParams{Held: true})
		ref := acquire(t, b, 2)
		one, two := driver.ProviderRef{Provider: "card", Ref: "1"}, driver.ProviderRef{Provider: "card", Ref: "2"}
		annotate := func(p driver.AnnotateParams) *driver.Record {
			require.NoError(t, b.Annotate(t.Context(), ref, &p))
			return inspect(t, b, key)
		}
		annotate(driver.AnnotateParams{Refs: []driver.ProviderRef{one, one}})
		rec := annotate(driver.AnnotateParams{Refs: []driver.ProviderRef{two, one}})
		require.Equal(t, []driver.ProviderRef{one, two}, rec.Refs)
		require.True(t, rec.Held && rec.Doubt)
		time.Sleep(time.Second)
		rec = annotate(driver.AnnotateParams{NotExecuted: true, Audit: &driver.Audit{By: "ann"}})
		require.False(t, rec.Held || rec.Doubt)
		require.Zero(t, rec.Providers[0].Elapsed, "the window begins anew")
		require.Equal(t, lease-time.Second, rec.LeaseLeft)
		require.Equal(t, "ann", rec.Audit.By)
	})
}

// Adding what is already there is no change: what is unknown for long stays so.
func TestAnnotateOfNothingNewDoesNotPutOffAPurge(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		ref := acquire(t, b, 1)
		p := &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "1"}}}
		require.NoError(t, b.Annotate(t.Context(), ref, p))
		time.Sleep(lease + time.Hour)
		require.NoError(t, b.Annotate(t.Context(), ref, p))
		time.Sleep(time.Second)
		res, err := b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Hour})
		require.NoError(t, err)
		require.EqualValues(t, 1, res.Purged)
	})
}
