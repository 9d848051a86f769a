package idem_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

func TestNilAndZeroOptionsAreValid(t *testing.T) {
	t.Parallel()
	for _, opts := range []*idem.Options{nil, {}} {
		s, err := idem.New(memstore.New(nil), opts)
		require.NoError(t, err)
		_, err = s.Execute(t.Context(), "k", returns("1"))
		require.NoError(t, err)
	}
	_, err := idem.New(nil, nil)
	require.ErrorIs(t, err, idem.ErrInvalidOption)
}

// What the comment of each field promises and other tests do not show: the rest
// is in lease_test.go (Lease, RenewEvery, MaxRun), wait_test.go (MaxWaiters),
// cases_test.go (StoreTimeout, RecordTimeout) and failopen_test.go.
func TestOptionsHaveTheDefaultsThatTheirCommentsTell(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		hidden bool
		want   time.Duration
	}{
		{name: "Retention is the backend's", want: aDay},
		{name: "Retention without a Retainer", hidden: true, want: 7 * aDay},
	} {
		synctestWorld(t, tc.name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			s := w.store
			if tc.hidden {
				s = newStore(t, unwatched{w.memory}, nil)
			}
			_, err := s.Execute(t.Context(), "k", returns("1"))
			require.NoError(t, err)
			require.Equal(t, tc.want, w.record(t, "k").RetentionLeft)
		})
	}
	w := newWorld(t, nil, nil)
	most := strings.Repeat("x", 1<<20)
	_, err := w.store.Execute(t.Context(), "most", returns(most))
	require.NoError(t, err)
	_, err = w.store.Execute(t.Context(), "more", returns(most+"x"))
	require.ErrorIs(t, err, idem.ErrTooLarge)
	res, err := w.store.Execute(t.Context(), "most", forbidden(t))
	require.NoError(t, err)
	require.Len(t, res.Value, 1<<20)
	_, err = idem.New(memstore.New(nil), &idem.Options{Retention: aDay - 1})
	require.ErrorContains(t, err, "24h0m0s", "RetryWindow")
}

func TestNewRefusesWhatIsOutOfBounds(t *testing.T) {
	t.Parallel()
	key := idem.FingerprintKey{ID: "k1", Key: make([]byte, 16)}
	for name, tc := range map[string]struct {
		opts idem.Options
		says []string
	}{
		"negative Lease":          {idem.Options{Lease: -1}, []string{"Lease", "-1ns"}},
		"negative RenewEvery":     {idem.Options{RenewEvery: -1}, []string{"RenewEvery", "-1ns"}},
		"tiny RenewEvery":         {idem.Options{RenewEvery: 1}, []string{"RenewEvery", "1ns", "100µs"}},
		"RenewEvery under 0.1 ms": {idem.Options{RenewEvery: 100*time.Microsecond - 1}, []string{"RenewEvery", "100µs"}},
		"negative MaxRun":         {idem.Options{MaxRun: -1}, []string{"MaxRun", "-1ns"}},
		"negative Retention":      {idem.Options{Retention: -1}, []string{"Retention", "-1ns"}},
		"negative RetryWindow":    {idem.Options{RetryWindow: -1}, []string{"RetryWindow", "-1ns"}},
		"negative StoreTimeout":   {idem.Options{StoreTimeout: -1}, []string{"StoreTimeout", "-1ns"}},
		"negative RecordTimeout":  {idem.Options{RecordTimeout: -1}, []string{"RecordTimeout", "-1ns"}},
		"negative MaxValue":       {idem.Options{MaxValue: -1}, []string{"MaxValue", "-1"}},
		"negative MaxWaiters":     {idem.Options{MaxWaiters: -1}, []string{"MaxWaiters", "-1"}},
		"no such policy":          {idem.Options{OnUnknown: idem.Hold + 1}, []string{"OnUnknown", "2"}},
		"short retention":         {idem.Options{Retention: time.Hour, RetryWindow: 2 * time.Hour}, []string{"Retention", "1h0m0s", "RetryWindow", "2h0m0s"}},
		"long retry window":       {idem.Options{RetryWindow: aDay + 1}, []string{"24h0m0s", "24h0m0.000000001s"}},
		"long namespace":          {idem.Options{Namespace: strings.Repeat("n", 129)}, []string{"Namespace", "128"}},
		"control in namespace":    {idem.Options{Namespace: "a\nb"}, []string{"Namespace"}},
		"codec without an id":     {idem.Options{Codec: named("")}, []string{"Codec"}},
		"codec's id, NUL":         {idem.Options{Codec: named("a\x00b")}, []string{"Codec"}},
		"codec's id, long":        {idem.Options{Codec: named(strings.Repeat("c", 129))}, []string{"Codec", "128"}},
		"bad UTF-8 in namespace":  {idem.Options{Namespace: "a\xff"}, []string{"Namespace"}},
		"fingerprint key, no id":  {idem.Options{FingerprintKeys: []idem.FingerprintKey{{Key: make([]byte, 16)}}}, []string{"FingerprintKeys"}},
		"fingerprint key, short":  {idem.Options{FingerprintKeys: []idem.FingerprintKey{{ID: "k", Key: make([]byte, 15)}}}, []string{"FingerprintKeys", "16"}},
		"fingerprint key, twice":  {idem.Options{FingerprintKeys: []idem.FingerprintKey{key, key}}, []string{"FingerprintKeys", "k1"}},
		"fingerprint key, bad id": {idem.Options{FingerprintKeys: []idem.FingerprintKey{{ID: "k\x00", Key: key.Key}}}, []string{"FingerprintKeys"}},
		"fingerprint key, long":   {idem.Options{FingerprintKeys: []idem.FingerprintKey{{ID: strings.Repeat("k", 65), Key: key.Key}}}, []string{"FingerprintKeys"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := idem.New(memstore.New(nil), &tc.opts)
			require.ErrorIs(t, err, idem.ErrInvalidOption)
			require.Equal(t, "invalid_option", infoOf(t, err).Code)
			for _, s := range tc.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
	for name, opts := range map[string]idem.Options{
		"namespace":       {Namespace: strings.Repeat("n", 128)},
		"fingerprint key": {FingerprintKeys: []idem.FingerprintKey{{ID: strings.Repeat("k", 64), Key: key.Key}}},
		"retention":       {Retention: time.Hour, RetryWindow: time.Hour},
	} {
		_, err := idem.New(memstore.New(nil), &opts)
		require.NoError(t, err, name)
	}
	_, err := idem.New(memstore.New(&memstore.Options{Retention: -time.Hour}), nil)
	require.ErrorIs(t, err, idem.ErrInvalidOption, "the backend's own retention is checked too")
}

// C53: no sum of durations overflows, because none is over a hundred years.
func TestDurationsOverAHundredYearsAreRefused(t *testing.T) {
	t.Parallel()
	const most = 100 * 365 * aDay
	set := map[string]func(o *idem.Options, d time.Duration){
		"Lease":         func(o *idem.Options, d time.Duration) { o.Lease = d },
		"MaxRun":        func(o *idem.Options, d time.Duration) { o.MaxRun = d },
		"Retention":     func(o *idem.Options, d time.Duration) { o.Retention = d },
		"RetryWindow":   func(o *idem.Options, d time.Duration) { o.RetryWindow, o.Retention = d, min(d, most) },
		"StoreTimeout":  func(o *idem.Options, d time.Duration) { o.StoreTimeout = d },
		"RecordTimeout": func(o *idem.Options, d time.Duration) { o.RecordTimeout = d },
	}
	for name, f := range set {
		for _, d := range []time.Duration{most, most + 1, math.MaxInt64} {
			var opts idem.Options
			f(&opts, d)
			_, err := idem.New(memstore.New(nil), &opts)
			if d <= most {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorIs(t, err, idem.ErrInvalidOption, name)
			require.ErrorContains(t, err, name)
		}
	}
	w := newWorld(t, nil, &idem.Options{Namespace: "ns"})
	for name, opt := range map[string]idem.ExecuteOption{
		"WithLease": idem.WithLease(most + 1), "WithMaxRun": idem.WithMaxRun(most + 1), "WithRetention": idem.WithRetention(most + 1),
		"WithWait": idem.WithWait(most + 1), "WithProvider": idem.WithProvider("bank", most+1),
	} {
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), opt)
		require.ErrorIs(t, err, idem.ErrInvalidOption, name)
		require.ErrorContains(t, err, name)
	}
	_, err := w.store.Claim(t.Context(), "k", most+1)
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	_, err = w.store.Execute(t.Context(), "k", returns("1"), idem.WithLease(most), idem.WithMaxRun(most), idem.WithRetention(most),
		idem.WithWait(most), idem.WithProvider("bank", most))
	require.NoError(t, err)
}

// C58: related durations are validated together.
func TestNewRefusesARenewalThatCannotHappenTwiceWithinTheLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lease, every, effective time.Duration
		ok                      bool
	}{
		{5 * time.Second, 5 * time.Second, 0, false},
		{5 * time.Second, 6 * time.Second, 0, false},
		{5 * time.Second, 3 * time.Second, 0, false},
		{5 * time.Second, 2500 * time.Millisecond, 0, false},
		{5 * time.Second, 2499 * time.Millisecond, 2499 * time.Millisecond, true},
		{5 * time.Second, 0, 5 * time.Second / 3, true},
		{5 * time.Second, -time.Second, 0, false},
		{0, time.Second, time.Second, true},
		{0, 15 * time.Second, 0, false},
		{100 * time.Millisecond, 0, 100 * time.Millisecond / 3, true},
		{5 * time.Second, 600 * time.Microsecond, 600 * time.Microsecond, true},
	} {
		synctestWorld(t, fmt.Sprintf("%v,%v", tc.lease, tc.every), func(t *testing.T) {
			line := newTimeline()
			b := faultstore.New(memstore.New(nil), line.over(nil))
			s, err := idem.New(b, &idem.Options{Lease: tc.lease, RenewEvery: tc.every, Observer: idem.Discard})
			if !tc.ok {
				require.ErrorIs(t, err, idem.ErrInvalidOption)
				require.ErrorContains(t, err, tc.every.String())
				if tc.every > 0 {
					want := tc.lease
					if want == 0 {
						want = lease
					}
					require.ErrorContains(t, err, want.String(), "both values")
				}
				return
			}
			require.NoError(t, err)
			_, err = s.Execute(t.Context(), "k", takes(tc.effective+time.Nanosecond, ""))
			require.NoError(t, err)
			require.Equal(t, []time.Duration{tc.effective}, line.of(faultstore.Renew))

			every := tc.every
			if every > 0 {
				_, err = s.Execute(t.Context(), "k2", forbidden(t), idem.WithLease(2*every-1))
				require.ErrorIs(t, err, idem.ErrInvalidOption, "for the lease of a call too")
				require.ErrorContains(t, err, every.String())
				require.ErrorContains(t, err, (2*every - 1).String())
			}
		})
	}
}

// C53: edge values of durations are refused, or the documented default, and
// never "for ever".
func TestTinyDurationsAreRefusedOrKept(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, -time.Second, 500 * time.Microsecond, time.Millisecond, 1500 * time.Millisecond} {
		synctestWorld(t, "lease of "+d.String(), func(t *testing.T) {
			w := newWorld(t, nil, nil)
			_, err := idem.New(w.memory, &idem.Options{Lease: d})
			c, callErr := w.store.Claim(t.Context(), "k", d)
			_, execErr := w.store.Execute(t.Context(), "k2", returns("1"), idem.WithLease(d))
			if d < 0 || d > 0 && d < time.Millisecond {
				for _, err := range []error{err, callErr, execErr} {
					require.ErrorIs(t, err, idem.ErrInvalidOption)
				}
				return
			}
			require.NoError(t, err)
			require.NoError(t, callErr)
			require.NoError(t, execErr)
			want := d
			if d == 0 {
				want = lease
			}
			require.Equal(t, want, w.record(t, "k").LeaseLeft)
			require.NoError(t, w.store.Release(t.Context(), c))
		})
		synctestWorld(t, "retention of "+d.String(), func(t *testing.T) {
			opts := &idem.Options{Retention: d, RetryWindow: time.Microsecond}
			if d == 0 {
				opts.RetryWindow = 0
			}
			s, err := idem.New(memstore.New(nil), opts)
			if d < 0 {
				require.ErrorIs(t, err, idem.ErrInvalidOption)
				return
			}
			require.NoError(t, err)
			want := d
			if d == 0 {
				want = aDay
			}
			_, err = s.Execute(t.Context(), "k", takes(time.Minute, "1"))
			require.NoError(t, err)
			rec, err := s.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, want, rec.RetentionLeft, "from the completion")
			time.Sleep(want - time.Nanosecond)
			res, err := s.Execute(t.Context(), "k", forbidden(t))
			require.NoError(t, err)
			require.True(t, res.Replayed)
			time.Sleep(time.Nanosecond)
			res, err = s.Execute(t.Context(), "k", returns("2"))
			require.NoError(t, err, "reading does not extend it")
			require.False(t, res.Replayed)
		})
	}
}

func TestRetentionIsOfTheCallTheStoreOrTheBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Retention: 48 * time.Hour, RetryWindow: time.Hour})
		for key, tc := range map[string]struct {
			opts []idem.ExecuteOption
			want time.Duration
		}{
			"store": {nil, 48 * time.Hour},
			"call":  {[]idem.ExecuteOption{idem.WithRetention(2 * time.Hour)}, 2 * time.Hour},
			"zero":  {[]idem.ExecuteOption{idem.WithRetention(0)}, 48 * time.Hour},
		} {
			_, err := w.store.Execute(t.Context(), key, returns("1"), tc.opts...)
			require.NoError(t, err)
			require.Equal(t, tc.want, w.record(t, key).RetentionLeft)
			_, err = w.store.Execute(t.Context(), "f"+key, fails(idem.NotApplied(errNothing)), tc.opts...)
			require.ErrorIs(t, err, errNothing)
			require.GreaterOrEqual(t, w.record(t, "f"+key).RetentionLeft, tc.want)
		}
		_, err := w.store.Execute(t.Context(), "k", forbidden(t), idem.WithRetention(time.Minute))
		require.ErrorIs(t, err, idem.ErrInvalidOption)
		require.ErrorContains(t, err, "1m0s")
		require.ErrorContains(t, err, "1h0m0s")
	})
}

func TestOptionsOfACallAreValidatedBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Namespace: "ns"})
	for name, opt := range map[string]idem.ExecuteOption{
		"nil":                    nil,
		"WithLease(-1)":          idem.WithLease(-1),
		"WithLease(1µs)":         idem.WithLease(time.Microsecond),
		"WithMaxRun(-1)":         idem.WithMaxRun(-1),
		"WithRetention(-1)":      idem.WithRetention(-1),
		"WithWait(-1)":           idem.WithWait(-1),
		"WithRecover(nil)":       idem.WithRecover(nil),
		"OnUnknown(2)":           idem.OnUnknown(2),
		"ReportTo(nil)":          idem.ReportTo(nil),
		"WithProvider(\"\", 1h)": idem.WithProvider("", time.Hour),
	} {
		for _, v := range ways() {
			_, err := v.call(t.Context(), w.store, "k", forbidden(t), opt)
			require.ErrorIs(t, err, idem.ErrInvalidOption, name)
			require.Equal(t, idem.EffectNotRun, infoOf(t, err).Effect, name)
		}
	}
	_, err := w.store.Execute(t.Context(), "k", nil)
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	_, err = idem.Do[int](t.Context(), w.store, "k", nil)
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	_, err = idem.Do(t.Context(), nil, "k", func(context.Context, *idem.Claim) (int, error) { return 1, nil })
	require.ErrorIs(t, err, idem.ErrInvalidOption)
	require.Zero(t, w.faults.Count(""))
	for _, zero := range []idem.ExecuteOption{idem.WithLease(0), idem.WithMaxRun(0), idem.WithRetention(0), idem.WithWait(0), idem.OnUnknown(idem.Rerun)} {
		_, err := w.store.Execute(t.Context(), "k", returns("1"), zero)
		require.NoError(t, err)
	}
}

// The Store keeps nothing that its caller may change.
func TestOptionsMayBeChangedOnceTheStoreIsMade(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	opts := &idem.Options{
		Errors:          map[string]error{"failed": errPermanent},
		FingerprintKeys: []idem.FingerprintKey{{ID: "k1", Key: secret}},
		Observer:        idem.Discard,
	}
	memory := memstore.New(nil)
	s := newStore(t, memory, opts)
	_, err := s.Execute(t.Context(), "k", fails(idem.Permanent(errBoom)), fingerprint("a"))
	require.ErrorIs(t, err, errBoom)
	clear(secret)
	opts.FingerprintKeys[0].ID = "k2"
	clear(opts.Errors)
	opts.Namespace = "other"
	_, err = s.Execute(t.Context(), "k", forbidden(t), fingerprint("a"))
	require.ErrorIs(t, err, idem.ErrRecordedFailure)
	require.ErrorIs(t, err, errPermanent, "Options.Errors is copied")
}

// Key, fingerprint and provider names are copied before the operation runs: one
// that mutates its input completes the record it claimed. So does a caller that
// reuses its buffers while its call waits.
func TestAnOperationThatMutatesItsInputCompletesTheRecordItClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, &idem.Options{Namespace: "ns"})
		first := w.execute(t.Context(), "key", func(context.Context) (idem.Result, error) {
			time.Sleep(time.Second)
			return idem.Result{}, idem.NotApplied(errNothing)
		}, fingerprint("body"))
		synctest.Wait()
		key, name, body := []byte("key"), []byte("bank"), []byte("body")
		reuse := func() { copy(key, "XXX"); copy(name, "XXXX"); copy(body, "XXXX") }
		text := func(b []byte) string { return unsafe.String(&b[0], len(b)) }
		done := w.execute(t.Context(), text(key), func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			require.Equal(t, "key", c.Key())
			require.Equal(t, derive("ns", "key", "bank"), c.ProviderKey("bank"))
			return idem.Result{Value: []byte("1")}, nil
		}, idem.WithProvider(text(name), time.Hour), idem.WithFingerprint(body), idem.WithWait(time.Minute))
		synctest.Wait()
		reuse()
		require.ErrorIs(t, (<-first).err, errNothing)
		require.NoError(t, (<-done).err)
		require.Equal(t, "bank", w.record(t, "key").Providers[0].Name)
		res, err := w.store.Execute(t.Context(), "key", forbidden(t), fingerprint("body"))
		require.NoError(t, err)
		require.True(t, res.Replayed)
		w.requireNoRecord(t, "XXX")
	})
}

func TestNamespacesNeverShareARecord(t *testing.T) {
	t.Parallel()
	memory := memstore.New(nil)
	for i, pair := range [][2]string{{"", "a"}, {"a", "b"}, {"ab", "c"}, {"a", "bc"}, {"", "1:ab"}, {"1:a", "b"}, {"", "abc"}} {
		s := newStore(t, memory, &idem.Options{Namespace: pair[0], Observer: idem.Discard})
		res, err := s.Execute(t.Context(), pair[1], returns(fmt.Sprint(i)))
		require.NoError(t, err)
		require.False(t, res.Replayed, "%q", pair)
	}
}

// named is a codec of which New looks at the id only.
type named string

func (n named) ID() string                 { return string(n) }
func (n named) Encode(any) ([]byte, error) { return nil, errBoom }
func (n named) Decode([]byte, any) error   { return errBoom }
