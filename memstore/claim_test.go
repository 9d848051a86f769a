package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

func print1(keyID string, b byte) []driver.Fingerprint {
	return []driver.Fingerprint{{KeyID: keyID, Sum: [32]byte{b}}}
}

func withPrints(f ...driver.Fingerprint) func(p *driver.ClaimParams) {
	return func(p *driver.ClaimParams) { p.Fingerprints = f }
}

func withTake(take driver.Take) func(p *driver.ClaimParams) {
	return func(p *driver.ClaimParams) { p.Take = take }
}

// situations bring key into a state, for owner 1 and fingerprint {k, 1}.
func situations() map[string]func(t *testing.T, b *memstore.Backend) {
	return map[string]func(t *testing.T, b *memstore.Backend){
		"absent": func(*testing.T, *memstore.Backend) {},
		"expired": func(t *testing.T, b *memstore.Backend) {
			complete(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), "v")
			time.Sleep(retention)
		},
		"claimed": func(t *testing.T, b *memstore.Backend) { acquire(t, b, 1, withPrints(print1("k", 1)...)) },
		"completed": func(t *testing.T, b *memstore.Backend) {
			complete(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), "v")
		},
		"released": func(t *testing.T, b *memstore.Backend) {
			release(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), driver.ReleaseParams{})
		},
		"doubtful": func(t *testing.T, b *memstore.Backend) {
			release(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), driver.ReleaseParams{Doubt: true})
		},
		"held": func(t *testing.T, b *memstore.Backend) {
			release(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), driver.ReleaseParams{Held: true})
		},
		"unknown": func(t *testing.T, b *memstore.Backend) {
			acquire(t, b, 1, withPrints(print1("k", 1)...))
			time.Sleep(lease)
		},
		"unknown, held": func(t *testing.T, b *memstore.Backend) {
			release(t, b, acquire(t, b, 1, withPrints(print1("k", 1)...)), driver.ReleaseParams{Held: true})
			acquire(t, b, 1001)
			time.Sleep(lease)
		},
	}
}

// orderCase is a claim of a key in a situation, and what answers it.
type orderCase struct {
	test      string // of the Claim order, and which others would answer otherwise
	situation string
	p         *driver.ClaimParams
	fact      driver.Fact
	err       error
}

// orderCases has a row for each test of the order that applies, beside as many
// that stand below it: only the order makes the answers right.
func orderCases() []orderCase {
	other, alien := withPrints(print1("k", 2)...), withPrints(print1("alien", 1)...)
	wrongToken := func(p *driver.ClaimParams) { p.ExpectToken = 7 }
	nothing := withTake(0)
	only := withTake
	allBut := func(take driver.Take) func(p *driver.ClaimParams) { return withTake(everyTake &^ take) }
	return []orderCase{
		{"2 absent", "absent", params(2), driver.Acquired, nil},
		{"2 before 6", "absent", params(2, wrongToken), driver.Acquired, nil},
		{"2 without TakeAbsent", "absent", params(2, allBut(driver.TakeAbsent)), 0, driver.ErrNotFound},
		{"2 expired, before 3", "expired", params(2, other), driver.Acquired, nil},
		{"2 expired, before 5", "expired", params(1), driver.Acquired, nil},
		{"2 expired, without TakeAbsent", "expired", params(2, only(driver.TakeReleased)), 0, driver.ErrNotFound},
		{"3 before 4", "completed", params(1, other, wrongToken), driver.Mismatch, nil},
		{"3 before 5, standing", "claimed", params(1, other), driver.Mismatch, nil},
		{"3 before 5, settled", "released", params(1, other), driver.Mismatch, nil},
		{"3 before 6", "released", params(2, other, wrongToken), driver.Mismatch, nil},
		{"3 before 7", "claimed", params(2, other), driver.Mismatch, nil},
		{"3 before 8", "unknown", params(2, other), driver.Mismatch, nil},
		{"3 before 9", "held", params(2, other, nothing), driver.Mismatch, nil},
		{"3 unknown key id before 4", "completed", params(2, alien), 0, driver.ErrCorrupt},
		{"3 unknown key id before 8", "unknown", params(2, alien), 0, driver.ErrCorrupt},
		{"4 before 5", "completed", params(1), driver.Completed, nil},
		{"4 before 6", "completed", params(2, wrongToken), driver.Completed, nil},
		{"5 standing before 6", "claimed", params(1, wrongToken), driver.Acquired, nil},
		{"5 standing before 8", "unknown", params(1, nothing), driver.Acquired, nil},
		{"5 standing, taken over", "unknown, held", params(1001, nothing), driver.TakenOver, nil},
		{"5 settled before 6", "released", params(1, wrongToken), 0, driver.ErrLeaseLost},
		{"5 settled before 8", "released", params(1), 0, driver.ErrLeaseLost},
		{"5 settled before 9", "held", params(1, nothing), 0, driver.ErrLeaseLost},
		{"6 before 7", "claimed", params(2, wrongToken), 0, driver.ErrConflict},
		{"6 before 8", "released", params(2, wrongToken), 0, driver.ErrConflict},
		{"6 before 9", "held", params(2, wrongToken, nothing), 0, driver.ErrConflict},
		{"7 before 8", "claimed", params(2), driver.InProgress, nil},
		{"8 released", "released", params(2, only(driver.TakeReleased)), driver.Acquired, nil},
		{"8 doubtful", "doubtful", params(2, only(driver.TakeDoubtful)), driver.TakenOver, nil},
		{"8 unknown", "unknown", params(2, only(driver.TakeUnknown)), driver.TakenOver, nil},
		{"8 held", "held", params(2, only(driver.TakeHeld)), driver.TakenOver, nil},
		{"8 held, its claim's lease ended", "unknown, held", params(2, only(driver.TakeHeld)), driver.TakenOver, nil},
		{"9 released", "released", params(2, allBut(driver.TakeReleased)), 0, driver.ErrConflict},
		{"9 doubtful", "doubtful", params(2, allBut(driver.TakeDoubtful)), driver.Held, nil},
		{"9 unknown", "unknown", params(2, allBut(driver.TakeUnknown)), driver.Held, nil},
		{"9 held", "held", params(2, allBut(driver.TakeHeld)), driver.Held, nil},
		{"9 held, its claim's lease ended", "unknown, held", params(2, allBut(driver.TakeHeld)), driver.Held, nil},
	}
}

func TestClaimMakesItsTestsInTheOrderOfTheContract(t *testing.T) {
	t.Parallel()
	for _, c := range orderCases() {
		t.Run(c.test, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				situations()[c.situation](t, b)
				before, _ := b.Inspect(t.Context(), key)
				res, err := b.Claim(t.Context(), c.p)
				require.ErrorIs(t, err, c.err)
				after, _ := b.Inspect(t.Context(), key)
				if err == nil {
					require.Equal(t, c.fact.String(), res.Fact.String())
					want := *after
					if res.Fact == driver.Mismatch {
						want.Outcome = driver.Outcome{} // of another request
					}
					require.Equal(t, want, res.Record)
				}
				if acquires := err == nil && (c.test[0] == '2' || c.test[0] == '8'); !acquires {
					require.Equal(t, before, after, "only tests 2 and 8 change a record")
				}
			})
		})
	}
}

// I6. The repetition is answered as the first time, and does not extend the lease.
func TestARepeatedClaimChangesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		first, err := b.Claim(t.Context(), params(1))
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		again, err := b.Claim(t.Context(), params(1))
		require.NoError(t, err)
		require.Equal(t, driver.Acquired, again.Fact)
		require.Equal(t, first.Record.Token, again.Record.Token)
		require.Equal(t, 1, again.Record.Attempt)
		require.Equal(t, 10*time.Second, again.Record.LeaseLeft)
		require.Equal(t, 20*time.Second, again.Record.ClaimAge)
	})
}

// I2. The counter belongs to the backend, not to the record.
func TestTokensRiseAcrossRetentionAndPurge(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		last := uint64(0)
		rises := func(token uint64) {
			require.Greater(t, token, last)
			last = token
		}
		ref := acquire(t, b, 1)
		rises(ref.Token)
		complete(t, b, ref, "v")
		time.Sleep(retention)
		ref = acquire(t, b, 2)
		rises(ref.Token)
		require.Equal(t, 1, inspect(t, b, key).Attempt, "what has expired is absent")
		complete(t, b, ref, "v")
		time.Sleep(retention)
		res, err := b.Purge(t.Context(), &driver.PurgeParams{})
		require.NoError(t, err)
		require.EqualValues(t, 1, res.Purged)
		ref = acquire(t, b, 3)
		rises(ref.Token)
		time.Sleep(lease + 2*time.Nanosecond)
		_, err = b.Purge(t.Context(), &driver.PurgeParams{UnknownAfter: time.Nanosecond})
		require.NoError(t, err)
		_, err = b.Inspect(t.Context(), key)
		require.ErrorIs(t, err, driver.ErrNotFound)
		rises(acquire(t, b, 4).Token)
	})
}

// I2, across a restart: the new process has a new Backend and a later clock.
func TestTokensOfALaterBackendAreHigher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var last uint64
		for range 3 {
			b := memstore.New(nil)
			for i := range 1000 {
				token := acquire(t, b, i, forKey(string(rune('a'+i)))).Token
				require.Greater(t, token, last)
				last = token
			}
			time.Sleep(time.Millisecond) // in which 1000 tokens may be issued
		}
	})
}

// I5. One configured key's digest equals the stored one: the others do not count.
func TestAFingerprintIsComparedWithTheDigestOfItsKey(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	acquire(t, b, 1, withPrints(print1("old", 1)...))
	claim := func(f ...driver.Fingerprint) (driver.Fact, error) {
		res, err := b.Claim(t.Context(), params(2, withPrints(f...)))
		if err != nil {
			return 0, err
		}
		return res.Fact, nil
	}
	rotated := func(n, o byte) []driver.Fingerprint { return append(print1("new", n), print1("old", o)...) }
	for _, c := range []struct {
		prints []driver.Fingerprint
		want   driver.Fact
	}{
		{nil, driver.InProgress},
		{[]driver.Fingerprint{{}}, driver.InProgress},
		{rotated(9, 1), driver.InProgress},
		{rotated(1, 9), driver.Mismatch},
		{append(print1("old", 9), print1("new", 1)...), driver.Mismatch},
		{append(print1("old", 9), print1("old", 1)...), driver.InProgress},
	} {
		fact, err := claim(c.prints...)
		require.NoError(t, err)
		require.Equal(t, c.want.String(), fact.String(), "%v", c.prints)
	}
	_, err := claim(print1("new", 1)...)
	require.ErrorIs(t, err, driver.ErrCorrupt, "I12")
}

// I5. The first claim that carries a fingerprint and acquires the key sets it.
func TestTheFirstFingerprintThatAcquiresIsStored(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	ref := acquire(t, b, 1)
	_, err := b.Claim(t.Context(), params(2, withPrints(print1("k", 2)...)))
	require.NoError(t, err)
	require.True(t, inspect(t, b, key).Fingerprint.IsZero(), "it did not acquire")
	release(t, b, ref, driver.ReleaseParams{})
	ref = acquire(t, b, 3, withPrints(append(print1("k", 3), print1("old", 3)...)...))
	release(t, b, ref, driver.ReleaseParams{})
	acquire(t, b, 4, withPrints(append(print1("new", 3), print1("k", 3)...)...))
	require.Equal(t, print1("k", 3)[0], inspect(t, b, key).Fingerprint, "a rotation does not replace it")
}

func TestARecordInDoubtIsNotTakenWhenAWindowIsNearlyOver(t *testing.T) {
	t.Parallel()
	with := func(name string, window, least time.Duration) func(p *driver.ClaimParams) {
		return func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: name, Window: window}}
			p.MinWindow = least
		}
	}
	for name, c := range map[string]struct {
		end  driver.ReleaseParams
		with func(p *driver.ClaimParams)
		want driver.Fact
	}{
		"enough is left":                      {driver.ReleaseParams{Doubt: true}, with("card", time.Hour, 9*time.Minute), driver.TakenOver},
		"exactly enough is left":              {driver.ReleaseParams{Doubt: true}, with("card", time.Hour, 10*time.Minute), driver.TakenOver},
		"too little is left":                  {driver.ReleaseParams{Doubt: true}, with("card", time.Hour, 11*time.Minute), driver.Held},
		"too little is left of a held record": {driver.ReleaseParams{Held: true}, with("card", time.Hour, 11*time.Minute), driver.Held},
		"a longer window counts for nothing":  {driver.ReleaseParams{Doubt: true}, with("card", 9*time.Hour, 11*time.Minute), driver.Held},
		"a shorter window counts for nothing": {driver.ReleaseParams{Doubt: true}, with("card", time.Minute, 9*time.Minute), driver.TakenOver},
		"a new window is too short":           {driver.ReleaseParams{Doubt: true}, with("mail", time.Minute, 9*time.Minute), driver.Held},
		"a new window begins now":             {driver.ReleaseParams{Doubt: true}, with("mail", 9*time.Minute, 9*time.Minute), driver.TakenOver},
		"not in doubt":                        {driver.ReleaseParams{}, with("card", time.Hour, 11*time.Minute), driver.Acquired},
		"no window asked for":                 {driver.ReleaseParams{Doubt: true}, with("card", time.Hour, 0), driver.TakenOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				ref := acquire(t, b, 1, with("card", 20*time.Minute, 0))
				time.Sleep(10 * time.Minute)
				release(t, b, ref, c.end)
				res, err := b.Claim(t.Context(), params(2, c.with))
				require.NoError(t, err)
				require.Equal(t, c.want.String(), res.Fact.String())
				stored := inspect(t, b, key).Providers
				elapsed := 10 * time.Minute
				if name == "not in doubt" {
					elapsed = 0 // no provider has seen the key
				}
				require.Equal(t, driver.Provider{Name: "card", Window: 20 * time.Minute, Elapsed: elapsed}, stored[0])
				for _, p := range stored[1:] {
					require.Equal(t, driver.Provider{Name: "mail", Window: 9 * time.Minute}, p)
				}
			})
		})
	}
}

// A lease that ended without an outcome is in doubt for MinWindow too.
func TestAnUnknownRecordIsNotTakenWhenAWindowIsNearlyOver(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
		acquire(t, b, 1, func(p *driver.ClaimParams) {
			p.Providers = []driver.ProviderWindow{{Name: "card", Window: time.Minute}}
		})
		time.Sleep(lease)
		res, err := b.Claim(t.Context(), params(2, func(p *driver.ClaimParams) { p.MinWindow = time.Minute }))
		require.NoError(t, err)
		require.Equal(t, driver.Held, res.Fact)
	})
}
