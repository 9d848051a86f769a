package tieredstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/tieredstore"
)

func TestAReplayInsideTheWindowIsOneReadOfTheFastTierAndNothingElse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		for _, pause := range []time.Duration{0, day, 3 * day, 3*day - time.Nanosecond} {
			time.Sleep(pause)
			require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k", "1", pause.String()) }))
		}
		require.EqualValues(t, 1, b.runs.Load())
	})
}

// What the archive would have said first: in the contract's order of tests, a
// fingerprint comes before an outcome (I5).
func TestACopyReportsAnotherFingerprintAsTheArchiveWould(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k", idem.WithFingerprint([]byte("a request")))
		require.Equal(t, calls{gets: 3}, b.during(func() {
			res := b.execute(t, "k", idem.WithFingerprint([]byte("a request")))
			require.True(t, res.Replayed)
			require.True(t, b.execute(t, "k").Replayed, "none compares equal")
			res, err := b.store.Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("another")))
			require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
			require.Empty(t, res.Value)
		}))
		require.EqualValues(t, 1, b.runs.Load())
	})
}

// I12. The copy cannot tell whether it is the same request: the archive reports
// it.
func TestACopyWithAFingerprintOfAnUnknownKeyIsTheArchivesToReport(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k", idem.WithFingerprint([]byte("a request")))
		rotated := storeOver(t, b.tiers, &idem.Options{FingerprintKeys: []idem.FingerprintKey{{ID: "new", Key: make([]byte, 32)}}})
		require.Equal(t, calls{gets: 1, archive: 1}, b.during(func() {
			_, err := rotated.Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("a request")))
			require.ErrorIs(t, err, idem.ErrCorrupt)
		}))
	})
}

func TestARecordedFailureIsReplayedFromTheFastTier(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		declined := func() error {
			_, err := b.store.Execute(t.Context(), "k", failing)
			return err
		}
		require.Error(t, declined())
		require.Equal(t, calls{gets: 1}, b.during(func() { require.ErrorIs(t, declined(), idem.ErrRecordedFailure) }))
	})
}

// Only what is completed, and what the archive has acknowledged, is ever put.
func TestACopyIsPutAfterTheArchiveHasTheOutcome(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		for _, e := range b.fast.Log() {
			if e.Method == faultstore.Put {
				p, ok := e.Params.(*driver.PutParams)
				require.True(t, ok)
				require.Equal(t, driver.Succeeded, p.Record.State)
				require.Equal(t, 7*day, p.TTL)
			}
		}
		want, err := b.archive.Inspect(t.Context(), driver.JoinKey("", "k"))
		require.NoError(t, err)
		require.Equal(t, want, b.copyOf(t, "k"), "A15: a copy equals the archive's record")
	})
}

func TestNothingUnfinishedIsCached(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.archiveFault.set(faultstore.Fail(faultstore.Complete, 0, errDown))
		_, err := b.store.Execute(t.Context(), "unrecorded", b.op)
		require.ErrorIs(t, err, idem.ErrNotRecorded)
		b.archiveFault.set(faultstore.Lose(faultstore.Complete, 0))
		_, err = b.store.Execute(t.Context(), "unanswered", b.op)
		require.ErrorIs(t, err, idem.ErrNotRecorded)
		b.archiveFault.set(nil)
		_, err = b.store.Execute(t.Context(), "released", refusing)
		require.Error(t, err)
		_, err = b.store.Execute(t.Context(), "held", doubtful)
		require.Error(t, err)
		c, err := b.store.Claim(t.Context(), "claimed", time.Hour)
		require.NoError(t, err)
		_, err = b.store.Claim(t.Context(), "claimed", time.Hour)
		require.ErrorIs(t, err, idem.ErrInProgress)
		require.NoError(t, c.Renew(t.Context()))
		require.Zero(t, b.fast.Count(faultstore.Put))
		require.Zero(t, b.cache.Stat().Records)
	})
}

// A key that crosses the end of the window is never absent and never runs twice;
// then its retention ends, and it may run again.
func TestAKeyThatStraddlesTheWindowsEndNeverRunsTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		began := time.Now()
		at := func(d time.Duration) { time.Sleep(time.Until(began.Add(d))) }
		for window := range 12 { // 84 days
			end := time.Duration(window+1) * 7 * day
			at(end - time.Nanosecond)
			require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k", "1", "before the window's end") }))
			at(end)
			require.Equal(t, calls{gets: 1, puts: 1, archive: 1}, b.during(func() { b.replays(t, "k", "1", "at the window's end") }))
			require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k", "1", "put back") }))
		}
		at(90*day - time.Nanosecond)
		require.Equal(t, calls{gets: 1}, b.during(func() { b.replays(t, "k", "1", "the last instant") }))
		at(90 * day)
		require.False(t, b.execute(t, "k").Replayed, "the retention has ended, in both tiers at once")
		require.EqualValues(t, 2, b.runs.Load())
	})
}

// The copy that is put back ends with the window, or with the record if that is
// sooner (I13).
func TestACopyIsPutBackForNoLongerThanTheArchiveKeepsTheRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		for _, c := range []struct{ pause, ttl time.Duration }{{7 * day, 7 * day}, {80 * day, 3 * day}} {
			time.Sleep(c.pause)
			b.replays(t, "k", "1", "put back")
			require.Equal(t, c.ttl, lastPut(t, b).TTL)
		}
		time.Sleep(3 * day)
		require.Nil(t, b.copyOf(t, "k"))
		require.False(t, b.execute(t, "k").Replayed)
	})
}

// The time that the read of the archive took is the record's, not the copy's.
func TestACopyIsAsOldAsTheBeginningOfItsRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		time.Sleep(88 * day)
		b.archiveFault.set(faultstore.At(faultstore.Claim, 0, faultstore.Fault{After: faultstore.Delay(time.Second)}))
		b.replays(t, "k", "1", "slowly")
		require.Equal(t, 2*day-time.Second, lastPut(t, b).TTL)
		time.Sleep(2*day - time.Second)
		require.Nil(t, b.copyOf(t, "k"))
	})
}

func TestNothingIsPutForAReadThatOutlastedTheRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, &idem.Options{StoreTimeout: time.Minute})
		b.execute(t, "k")
		time.Sleep(90*day - time.Second)
		b.archiveFault.set(faultstore.At(faultstore.Claim, 0, faultstore.Fault{After: faultstore.Delay(time.Second)}))
		require.Zero(t, b.during(func() { b.replays(t, "k", "1", "slowly") }).puts)
	})
}

func TestAReaderSlowerThanHalfOfTheRefillBoundPutsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, &idem.Options{StoreTimeout: 5 * time.Minute, RecordTimeout: 5 * time.Minute})
		b.fastFault.set(only(faultstore.Put, down()))
		b.execute(t, "k")
		b.fastFault.set(nil)
		for _, c := range []struct {
			slow time.Duration
			puts int
		}{{30 * time.Second, 0}, {30*time.Second - 1, 1}} {
			b.archiveFault.set(faultstore.At(faultstore.Claim, 0, faultstore.Fault{After: faultstore.Delay(c.slow)}))
			require.Equal(t, c.puts, b.during(func() { b.replays(t, "k", "1", c.slow.String()) }).puts)
		}
	})
}

func TestAnOperatorIsNeverAnsweredFromACopy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		require.Equal(t, calls{puts: 1, archive: 2}, b.during(func() {
			token := b.token(t, "k")
			err := b.store.Resolve(t.Context(), "k", token, idem.Resolution{Recovery: idem.NotExecuted()})
			require.ErrorIs(t, err, idem.ErrConflict)
		}))
	})
}

func TestStatsCountTheCallsThatEachTierSees(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.execute(t, "k")
		b.replays(t, "k", "1", "at once")
		time.Sleep(7 * day)
		b.replays(t, "k", "1", "from the archive")
		c, err := b.store.Claim(t.Context(), "steps", time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Renew(t.Context()))
		require.NoError(t, c.SaveRef(t.Context(), "card", "1"))
		require.NoError(t, b.store.Release(t.Context(), c))
		require.NoError(t, b.store.Redact(t.Context(), "k", b.token(t, "k"), "asked"))
		b.fastFault.set(down())
		b.execute(t, "other")
		s := b.tiers.Stats()
		require.Equal(t, tieredstore.FastStats{Gets: 5, Hits: 1, Puts: 3, Deletes: 2, Failures: 2}, s.Fast)
		require.Equal(t, tieredstore.ArchiveStats{
			Claims: 4, Renews: 1, Annotates: 1, Completes: 2, Releases: 1, Inspects: 3, Edits: 1,
		}, s.Archive)
		require.EqualValues(t, b.fast.Count(""), s.Fast.Calls())
		require.EqualValues(t, b.archive.Count(""), s.Archive.Calls())
	})
}

func TestTheOptionalInterfacesAreTheArchivesOrItsOwn(t *testing.T) {
	t.Parallel()
	archive := memstore.New(nil)
	b := over(t, memory(), archive, &tieredstore.Options{Retention: time.Hour})
	require.Same(t, archive, b.Unwrap())
	require.Equal(t, time.Hour, b.DefaultRetention())
	require.Equal(t, 90*day, over(t, memory(), archive, nil).DefaultRetention())
	kept := over(t, memory(), over(t, memory(), archive, &tieredstore.Options{Retention: 400 * day}), &tieredstore.Options{Window: time.Minute})
	require.Equal(t, 400*day, kept.DefaultRetention(), "an archive that keeps more is not cut short")
	_, lists := driver.As[driver.Lister](b)
	_, purges := driver.As[driver.Purger](b)
	_, watches := driver.As[driver.Watcher](b)
	require.True(t, lists && purges && watches)

	bare := over(t, memory(), struct{ driver.Backend }{archive}, nil)
	require.ErrorContains(t, bare.Redact(t.Context(), "k", &driver.EditParams{Token: 1}), "unsupported")
	require.NoError(t, bare.Check(t.Context()))
}

func TestNewRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts tieredstore.Options
		says []string
	}{
		"negative window":         {tieredstore.Options{Window: -1}, []string{"Window", "-1ns"}},
		"negative retention":      {tieredstore.Options{Retention: -time.Hour}, []string{"Retention", "-1h"}},
		"tiny time-out":           {tieredstore.Options{FastTimeout: 1}, []string{"FastTimeout", "1ms"}},
		"negative bound":          {tieredstore.Options{RefillBound: -1}, []string{"RefillBound"}},
		"window over retention":   {tieredstore.Options{Window: 2 * day, Retention: day}, []string{"Window", "48h", "Retention", "24h"}},
		"window over the default": {tieredstore.Options{Window: 91 * day}, []string{"Window", "Retention"}},
		"bound below time-out":    {tieredstore.Options{RefillBound: time.Second, FastTimeout: time.Second / 2}, []string{"RefillBound", "FastTimeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := tieredstore.New(memory(), memstore.New(nil), &c.opts)
			require.Nil(t, b)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
	_, err := tieredstore.New(nil, memstore.New(nil), nil)
	require.ErrorContains(t, err, "nil")
	_, err = tieredstore.New(memory(), nil, nil)
	require.ErrorContains(t, err, "nil")
	over(t, memory(), memstore.New(nil), &tieredstore.Options{Retention: time.Hour}) // the default window follows
}
