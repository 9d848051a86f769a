package idem_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// With WithProvider(name, window), counted from the first claim, Rerun acts as
// Hold when less than one MaxRun of the window is left.
func TestRerunActsAsHoldWhenTheProvidersWindowIsNearItsEnd(t *testing.T) {
	t.Parallel()
	bank, other := idem.WithProvider("bank", time.Hour), idem.WithProvider("other", 50*time.Minute)
	for _, tc := range []struct {
		name string
		opts []idem.ExecuteOption
		at   time.Duration
		held bool
	}{
		{"one MaxRun is left", []idem.ExecuteOption{bank}, 45 * time.Minute, false},
		{"a little less is left", []idem.ExecuteOption{bank}, 45*time.Minute + time.Nanosecond, true},
		{"the window is over", []idem.ExecuteOption{bank}, 2 * time.Hour, true},
		{"the shortest of two", []idem.ExecuteOption{bank, other}, 35 * time.Minute, false},
		{"a little less of the shortest", []idem.ExecuteOption{bank, other}, 35*time.Minute + time.Nanosecond, true},
		{"a longer MaxRun", []idem.ExecuteOption{bank, idem.WithMaxRun(40 * time.Minute)}, 21 * time.Minute, true},
		{"a shorter MaxRun", []idem.ExecuteOption{bank, idem.WithMaxRun(time.Minute)}, 59 * time.Minute, false},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{Namespace: "shop"})
			_, err := w.store.Execute(t.Context(), "k", fails(errBoom), tc.opts...)
			require.ErrorIs(t, err, errBoom)
			time.Sleep(tc.at)
			ran := 0
			_, err = w.store.Execute(t.Context(), "k", counted(&ran, returns("2")), tc.opts...)
			if tc.held {
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
				require.Zero(t, ran)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, ran)
		})
	}
}

// The stored windows count, whatever the later call says about providers.
func TestAProvidersWindowIsRememberedByTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Namespace: "shop"})
		_, err := w.store.Execute(t.Context(), "k", fails(errBoom), idem.WithProvider("bank", time.Hour))
		require.ErrorIs(t, err, errBoom)
		require.Equal(t, []driver.Provider{{Name: "bank", Window: time.Hour}}, w.record(t, "k").Providers)
		time.Sleep(50 * time.Minute)
		for _, opts := range [][]idem.ExecuteOption{nil, {idem.WithProvider("bank", 100*time.Hour)}, {idem.WithProvider("other", 100*time.Hour)}} {
			_, err = w.store.Execute(t.Context(), "k", forbidden(t), opts...)
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
		}
	})
}

// The operation's context ends with the window.
func TestTheOperationsContextEndsWithTheProvidersWindow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts []idem.ExecuteOption
		want time.Duration
	}{
		{"one", []idem.ExecuteOption{idem.WithProvider("bank", 10*time.Minute)}, 10 * time.Minute},
		{"the shortest", []idem.ExecuteOption{idem.WithProvider("bank", 10*time.Minute), idem.WithProvider("other", time.Minute)}, time.Minute},
		{"longer than MaxRun", []idem.ExecuteOption{idem.WithProvider("bank", time.Hour)}, maxRun},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{Namespace: "shop"})
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
				<-ctx.Done()
				require.Equal(t, tc.want, line.now())
				require.ErrorIs(t, context.Cause(ctx), idem.ErrMaxRun)
				return idem.Result{}, ctx.Err()
			}, tc.opts...)
			require.ErrorIs(t, err, idem.ErrMaxRun)
			require.Equal(t, tc.want != maxRun, strings.Contains(err.Error(), "window"), "%v", err)
		})
	}
}

// The context of a claim that its caller runs ends with the window too.
func TestTheContextOfAClaimEndsWithTheProvidersWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Namespace: "shop"})
		line := newTimeline()
		c, err := w.store.Claim(t.Context(), "k", lease, idem.WithProvider("bank", 40*time.Second))
		require.NoError(t, err)
		ctx, cancel := c.Context(t.Context())
		defer cancel()
		time.Sleep(25 * time.Second)
		require.NoError(t, c.Renew(ctx))
		<-ctx.Done()
		require.Equal(t, 40*time.Second, line.now())
		require.ErrorIs(t, context.Cause(ctx), idem.ErrMaxRun)
		require.ErrorContains(t, context.Cause(ctx), "window")
		again, cancel := c.Context(t.Context())
		defer cancel()
		<-again.Done()
		require.ErrorIs(t, context.Cause(again), idem.ErrMaxRun)
		require.NoError(t, w.store.Record(t.Context(), c, idem.Result{}), "a late result counts")
	})
}

// The window counts from the first claim since the last "not executed": a clean
// release says that no provider has seen the key, a recovery too.
func TestAProvidersWindowBeginsAnewWhenNothingWasExecuted(t *testing.T) {
	t.Parallel()
	bank := idem.WithProvider("bank", time.Hour)
	notExecuted := idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) { return idem.NotExecuted(), nil })
	for name, again := range map[string]func(t *testing.T, w *world) []idem.ExecuteOption{
		"clean release": func(t *testing.T, w *world) []idem.ExecuteOption {
			_, err := w.store.Execute(t.Context(), "k", fails(idem.NotApplied(errNothing)), bank)
			require.ErrorIs(t, err, errNothing)
			time.Sleep(2 * time.Hour)
			return []idem.ExecuteOption{bank}
		},
		"recovery": func(t *testing.T, w *world) []idem.ExecuteOption {
			_, err := w.store.Execute(t.Context(), "k", fails(errBoom), bank)
			require.ErrorIs(t, err, errBoom)
			time.Sleep(2 * time.Hour)
			return []idem.ExecuteOption{bank, notExecuted}
		},
		"resolution": func(t *testing.T, w *world) []idem.ExecuteOption {
			_, err := w.store.Execute(t.Context(), "k", fails(errBoom), bank)
			require.ErrorIs(t, err, errBoom)
			time.Sleep(2 * time.Hour)
			require.NoError(t, w.store.Resolve(t.Context(), "k", w.record(t, "k").Token, idem.Resolution{Recovery: idem.NotExecuted()}))
			return []idem.ExecuteOption{bank}
		},
	} {
		synctestWorld(t, name, func(t *testing.T) {
			w := newWorld(t, nil, &idem.Options{Namespace: "shop", MaxRun: 3 * time.Hour})
			opts := again(t, w)
			line := newTimeline()
			_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
				<-ctx.Done()
				return idem.Result{}, ctx.Err()
			}, opts...)
			require.ErrorIs(t, err, idem.ErrMaxRun)
			require.Equal(t, time.Hour, line.now(), "a whole window")
		})
	}
}

// While a recovery decides, an old window does not end its context.
func TestARecoveryMayAskAProviderWhoseWindowIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Namespace: "shop"})
		bank := idem.WithProvider("bank", time.Hour)
		_, err := w.store.Execute(t.Context(), "k", fails(errBoom), bank)
		require.ErrorIs(t, err, errBoom)
		time.Sleep(20 * time.Hour)
		res, err := w.store.Execute(t.Context(), "k", forbidden(t), bank, idem.WithRecover(
			func(ctx context.Context, _ *idem.Claim) (idem.Recovery, error) {
				time.Sleep(5 * time.Minute)
				return idem.Recovered(idem.Result{Value: []byte("r")}), ctx.Err()
			}))
		require.NoError(t, err)
		require.Equal(t, "r", string(res.Value))
	})
}

func TestWithProviderRefusesWhatCouldShareKeys(t *testing.T) {
	t.Parallel()
	named, nameless := newWorld(t, nil, &idem.Options{Namespace: "shop"}), newWorld(t, nil, nil)
	for name, tc := range map[string]struct {
		world *world
		opts  []idem.ExecuteOption
	}{
		"no namespace": {nameless, []idem.ExecuteOption{idem.WithProvider("bank", time.Hour)}},
		"no name":      {named, []idem.ExecuteOption{idem.WithProvider("", time.Hour)}},
		"long name":    {named, []idem.ExecuteOption{idem.WithProvider(strings.Repeat("b", 129), time.Hour)}},
		"bad name":     {named, []idem.ExecuteOption{idem.WithProvider("ba\x00nk", time.Hour)}},
		"no window":    {named, []idem.ExecuteOption{idem.WithProvider("bank", 0)}},
		"negative":     {named, []idem.ExecuteOption{idem.WithProvider("bank", -time.Hour)}},
		"twice":        {named, []idem.ExecuteOption{idem.WithProvider("bank", time.Hour), idem.WithProvider("bank", time.Hour)}},
	} {
		for _, w := range ways() {
			_, err := w.call(t.Context(), tc.world.store, "k", forbidden(t), tc.opts...)
			require.ErrorIs(t, err, idem.ErrInvalidOption, name)
			require.ErrorContains(t, err, "WithProvider", name)
		}
	}
	require.Zero(t, named.faults.Count("")+nameless.faults.Count(""))
}

// References saved by one attempt are there for the next one, in order and
// without repetitions.
func TestReferencesAreKeptAcrossAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	first, second := idem.ProviderRef{Provider: "bank", Ref: "ch_1"}, idem.ProviderRef{Provider: "bank", Ref: "ch_2"}
	_, err := w.store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		c, _ := idem.ClaimFrom(ctx)
		require.Empty(t, c.Refs())
		for _, ref := range []string{"ch_1", "ch_1", "ch_2", "ch_1"} {
			require.NoError(t, c.SaveRef(ctx, "bank", ref))
		}
		require.Equal(t, []idem.ProviderRef{first, second}, c.Refs())
		c.Refs()[0].Ref = "changed by the caller"
		require.Equal(t, []idem.ProviderRef{first, second}, c.Refs())
		return idem.Result{}, errBoom
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, []idem.ProviderRef{first, second}, w.record(t, "k").Refs)

	other := w.process(t, nil)
	res, err := other.store.Execute(t.Context(), "k", forbidden(t), idem.WithRecover(
		func(ctx context.Context, c *idem.Claim) (idem.Recovery, error) {
			require.Equal(t, []idem.ProviderRef{first, second}, c.Refs())
			require.NoError(t, c.SaveRef(ctx, "bank", "ch_3"))
			return idem.Recovered(idem.Result{Value: []byte("r")}), nil
		}))
	require.NoError(t, err)
	require.True(t, res.Recovered)
	require.Len(t, w.record(t, "k").Refs, 3)
}

// C10, C14: a lost reply is asked for again, with the same parameters.
func TestSaveRefSaysWhatBecameOfTheReference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault faultstore.Hook
		want  error
		saved bool
		took  time.Duration // 0: not looked at
	}{
		{"one reply lost", faultstore.Lose(faultstore.Annotate, 1), nil, true, 0},
		{"all replies lost", faultstore.Lose(faultstore.Annotate, 0), idem.ErrUnavailable, true, 0},
		{"refused", faultstore.Fail(faultstore.Annotate, 0, driver.ErrUnavailable), idem.ErrUnavailable, false, 0},
		{"unreadable", faultstore.Fail(faultstore.Annotate, 0, driver.ErrCorrupt), idem.ErrCorrupt, false, 0},
		{
			"no answer", faultstore.At(faultstore.Annotate, 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}),
			idem.ErrUnavailable, false, 2 * time.Second, // StoreTimeout
		},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, tc.fault, nil)
			c, err := w.store.Claim(t.Context(), "k", lease)
			require.NoError(t, err)
			line := newTimeline()
			err = c.SaveRef(t.Context(), "bank", "r")
			require.ErrorIs(t, err, tc.want)
			if err != nil {
				require.Equal(t, idem.EffectUnknown, infoOf(t, err).Effect, "the work goes on")
			}
			if tc.took > 0 {
				require.Equal(t, tc.took, line.now())
			}
			require.Equal(t, tc.saved, len(w.record(t, "k").Refs) == 1)
			require.Equal(t, tc.want == nil, len(c.Refs()) == 1)
			require.Equal(t, driver.Claimed, w.record(t, "k").State)
		})
	}
}

// C25, C46: what some backend cannot keep is refused by all of them, before
// anything is written.
func TestSaveRefRefusesWhatNotEveryBackendCanKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	c, err := w.store.Claim(t.Context(), "k", lease)
	require.NoError(t, err)
	for name, ref := range map[string]idem.ProviderRef{
		"no provider":        {Provider: "", Ref: "r"},
		"long provider":      {Provider: strings.Repeat("p", 129), Ref: "r"},
		"provider with NUL":  {Provider: "p\x00", Ref: "r"},
		"provider not UTF-8": {Provider: "p\xff", Ref: "r"},
		"no reference":       {Provider: "bank", Ref: ""},
		"long reference":     {Provider: "bank", Ref: strings.Repeat("r", 4<<10+1)},
		"reference with NUL": {Provider: "bank", Ref: "r\x00"},
		"ref. not UTF-8":     {Provider: "bank", Ref: "r\xff"},
	} {
		require.ErrorIs(t, c.SaveRef(t.Context(), ref.Provider, ref.Ref), idem.ErrInvalidOption, name)
	}
	require.Zero(t, w.faults.Count(faultstore.Annotate))
	require.NoError(t, c.SaveRef(t.Context(), strings.Repeat("p", 128), strings.Repeat("r", 4<<10)))
}
