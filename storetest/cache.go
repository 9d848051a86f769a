package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/driver"
)

// CacheHarness tells [RunCache] how to reach a cache. Only New is required.
type CacheHarness struct {
	// New returns a fresh handle on a cache with room for a few thousand records:
	// a cache may forget, but one that forgets these is of no use.
	New func(tb testing.TB) driver.Cache
	// Wrap, Advance and Unit are as in [Harness].
	Wrap    func(t *testing.T, body func(t *testing.T))
	Advance func(tb testing.TB, d time.Duration)
	Unit    time.Duration
	// Garbage puts something unreadable in the place of the key's copy. Nil is
	// not declared: a cache in the process's own memory.
	Garbage func(tb testing.TB, c driver.Cache, key string)
}

// RunCache checks the contract of [driver.Cache], one subtest for each rule.
func RunCache(t *testing.T, h CacheHarness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("storetest: CacheHarness.New is required")
	}
	h.suite().each(t, cacheRules(), report)
}

func (h *CacheHarness) suite() *suite {
	s := &suite{wrap: h.Wrap, advance: h.Advance, unit: h.Unit, ch: h, lacks: func(n need) string {
		if n&needGarbage != 0 && h.Garbage == nil {
			return "not declared: Garbage: what becomes of unreadable copies was not checked"
		}
		return ""
	}}
	s.defaults()
	return s
}

func cacheRules() []rule {
	return []rule{
		{name: "cache/miss_is_not_found", text: cacheGet, check: cacheMiss},
		{name: "cache/copy_comes_back_whole", text: cite(cacheGet, cachePut), check: cacheWhole},
		{name: "cache/newer_copy_wins", text: cachePut, check: cacheNewer},
		{name: "cache/newest_of_many_wins", text: cachePut, check: cacheNewestOfMany},
		{name: "cache/copy_ends_with_its_time", text: cacheTTL, check: cacheEnds},
		{name: "cache/reading_does_not_extend", text: cacheTTL, check: cacheReading},
		{name: "cache/no_time_puts_nothing", text: cacheTTL, check: cacheNoTime},
		{name: "cache/holds_completed_records_only", text: cacheHolds, check: cacheCompletedOnly},
		{name: "cache/delete_removes_and_leaves_a_marker", text: cacheDelete, check: cacheDeletes},
		{name: "cache/marker_ends", text: cacheDelete, check: cacheMarkerEnds},
		{name: "cache/shorter_marker_does_not_shorten", text: cacheDelete, check: cacheMarkerStays},
		{name: "cache/slow_reader_puts_nothing_old_back", text: cite(cachePut, cacheDelete), check: cacheSlowReader},
		{name: "cache/keys_are_distinct", text: i9, check: cacheKeys},
		{name: "cache/params_are_not_retained", text: textParams, check: cacheParams},
		{name: "cache/garbage_is_a_miss", text: cacheGet, needs: needGarbage, check: cacheGarbage},
		{name: "cache/ended_context_is_no_answer", text: textContexts, check: cacheContext},
	}
}

// shelf is one key of a cache.
type shelf struct {
	*trial
	c   driver.Cache
	key string
}

func (t *trial) shelf(key string) *shelf {
	return &shelf{trial: t, c: t.ch.New(t.tb), key: driver.JoinKey(t.space, key)}
}

// version returns a completed record with all fields set.
func (s *shelf) version(token, revision uint64, value string) *driver.Record {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	return &driver.Record{
		Key: s.key, State: driver.Succeeded, Doubt: true, Owner: driver.Owner{1, 2, 3}, Token: token, Attempt: 3,
		Fingerprint: printOf("k1", "x"), Providers: []driver.Provider{{Name: "acme", Window: long}},
		Refs: refs("a", "b"), Outcome: success(value), Audit: driver.Audit{By: "olga", Why: "é", At: at},
		Format: driver.FormatVersion, Revision: revision, SealKeyID: "s1", RetentionLeft: kept, ClaimAge: long,
		ClaimedAt: at.Add(-long), RecordedAt: at,
	}
}

func (s *shelf) put(r *driver.Record, ttl time.Duration) {
	if err := s.c.Put(s.ctx(), &driver.PutParams{Record: r, TTL: ttl}); err != nil {
		s.Fatalf("Put: error %q", err)
	}
}

func (s *shelf) remove(refuse time.Duration) {
	if err := s.c.Delete(s.ctx(), s.key, refuse); err != nil {
		s.Fatalf("Delete: error %q", err)
	}
}

func (s *shelf) holds(want *driver.Record, when string) {
	got, err := s.c.Get(s.ctx(), s.key)
	if err != nil || got == nil {
		s.Errorf("%s: Get: error %v, want token %d revision %d", when, err, want.Token, want.Revision)
		return
	}
	if d := different(want, got); len(d) > 0 {
		s.Errorf("%s: want, then have: %v", when, d)
	}
}

func (s *shelf) misses(when string) {
	if got, err := s.c.Get(s.ctx(), s.key); !errors.Is(err, driver.ErrNotFound) {
		s.Errorf("%s: Get: error %v, record %v; want %q", when, err, got != nil, driver.ErrNotFound)
	}
}

func cacheMiss(t *trial) { t.shelf("k").misses("an empty cache") }

func cacheWhole(t *trial) {
	for i, v := range []string{"", "a\x00\xff", "é"} {
		s := t.shelf(fmt.Sprint(i))
		r := s.version(5, 1, v)
		s.put(r, long)
		s.holds(r, "after Put")
	}
	s := t.shelf("failed")
	r := s.version(5, 2, "")
	r.State, r.Outcome = driver.Failed, failure("card_declined")
	s.put(r, long)
	s.holds(r, "a failure")
	tomb := s.version(5, 3, "")
	tomb.Outcome = driver.Outcome{Body: driver.BodyRedacted}
	s.put(tomb, long)
	s.holds(tomb, "a tombstone")
}

func cacheNewer(t *trial) {
	s := t.shelf("k")
	held := s.version(5, 2, "five two")
	s.put(held, long)
	for _, old := range []*driver.Record{s.version(5, 1, "five one"), s.version(4, 9, "four nine"), s.version(1, 1, "")} {
		s.put(old, 2*long)
		s.holds(held, fmt.Sprintf("after Put of token %d revision %d", old.Token, old.Revision))
	}
	for _, next := range []*driver.Record{s.version(5, 3, "five three"), s.version(6, 1, "six one"), s.version(10, 1, "ten one")} {
		s.put(next, long)
		s.holds(next, "after Put of a newer copy")
	}
	big := s.version(1<<63+1, 1, "big")
	s.put(big, long)
	s.put(s.version(1<<63, 1, "less big"), long)
	s.holds(big, "after Put of a token that differs in its last bit")
}

// cacheNewestOfMany lets writers race for one key after the other: a cache that
// compares and writes in two steps may end with the newest copy by luck, but not
// every time.
func cacheNewestOfMany(t *trial) {
	for round := range 10 {
		s := t.shelf(fmt.Sprintf("k%d", round))
		var n atomic.Uint64
		t.together(20, func(int) {
			for range 10 {
				token := n.Add(1)
				_ = s.c.Put(s.ctx(), &driver.PutParams{Record: s.version(token, 1, ""), TTL: long})
			}
		})
		got, err := s.c.Get(s.ctx(), s.key)
		if err != nil || got.Token != 200 {
			t.Errorf("after 200 versions: %v, error %v; want token 200", got, err)
		}
	}
}

func cacheEnds(t *trial) {
	s := t.shelf("k")
	begun := time.Now()
	r := s.version(5, 1, "x")
	s.put(r, 4*t.unit)
	t.pass(2 * t.unit)
	got, err := s.c.Get(s.ctx(), s.key)
	t.within(begun, 4*t.unit)
	if err != nil || got.Token != 5 {
		t.Errorf("half-way: error %v, want the copy", err)
	}
	t.pass(3 * t.unit)
	s.misses("after 5 units of 4")
	s.put(s.version(4, 1, "older"), long)
	s.holds(s.version(4, 1, "older"), "an older copy, after the newer one has ended")
}

func cacheReading(t *trial) {
	s := t.shelf("k")
	s.put(s.version(5, 1, "x"), 2*t.unit)
	for range 6 {
		_, _ = s.c.Get(s.ctx(), s.key)
		_ = s.c.Put(s.ctx(), &driver.PutParams{Record: s.version(4, 1, "older"), TTL: t.short()})
		t.pass(t.unit / 2)
	}
	s.misses("after 3 units of 2, read all the time")
}

func cacheNoTime(t *trial) {
	s := t.shelf("k")
	for _, ttl := range []time.Duration{0, -1, -long} {
		_ = s.c.Put(s.ctx(), &driver.PutParams{Record: s.version(5, 1, "x"), TTL: ttl})
		s.misses("after Put for " + ttl.String())
	}
	r := s.version(5, 1, "x")
	s.put(r, long)
	_ = s.c.Put(s.ctx(), &driver.PutParams{Record: s.version(6, 1, "y"), TTL: 0})
	s.holds(r, "after Put of a newer copy for no time")
}

func cacheCompletedOnly(t *trial) {
	s := t.shelf("k")
	for _, state := range []driver.State{0, driver.Claimed, driver.Released, driver.Unknown} {
		r := s.version(5, 1, "")
		r.State, r.Outcome = state, driver.Outcome{}
		_ = s.c.Put(s.ctx(), &driver.PutParams{Record: r, TTL: long})
		s.misses("after Put of a record that is " + state.String())
	}
	done := s.version(4, 1, "done")
	s.put(done, long)
	r := s.version(6, 1, "")
	r.State, r.Outcome = driver.Claimed, driver.Outcome{}
	_ = s.c.Put(s.ctx(), &driver.PutParams{Record: r, TTL: long})
	s.holds(done, "after Put of a claimed record")
}

func cacheDeletes(t *trial) {
	s := t.shelf("k")
	s.put(s.version(5, 1, "x"), long)
	s.remove(long)
	s.misses("after Delete")
	s.put(s.version(9, 9, "y"), long)
	s.misses("after a Put that the marker refuses")
	other := *s
	other.key += "2"
	r := other.version(1, 1, "z")
	other.put(r, long)
	other.holds(r, "another key, beside a marker")
}

func cacheMarkerEnds(t *trial) {
	s := t.shelf("k")
	s.remove(t.short())
	t.lapse()
	s.misses("after the marker's end")
	r := s.version(5, 1, "x")
	s.put(r, long)
	s.holds(r, "put after the marker's end")
}

func cacheMarkerStays(t *trial) {
	s := t.shelf("k")
	s.remove(long)
	s.remove(t.short())
	t.lapse()
	s.put(s.version(5, 1, "x"), long)
	s.misses("after a Put that the longer marker refuses")
}

// cacheSlowReader is case C41: a reader took an old copy from the archive, and
// stores it after a writer has updated, or deleted, the new one.
func cacheSlowReader(t *trial) {
	s := t.shelf("k")
	old, tomb := s.version(5, 1, "a secret"), s.version(5, 2, "")
	tomb.Outcome = driver.Outcome{Body: driver.BodyRedacted}
	s.put(tomb, long)
	s.put(old, long)
	s.holds(tomb, "after the slow reader's Put")
	s.remove(long)
	s.put(old, long)
	s.misses("after a deletion and the slow reader's Put")
}

func cacheKeys(t *trial) {
	s := t.shelf("")
	for _, key := range storable() {
		one := *s
		one.key = driver.JoinKey(t.space, key)
		one.put(one.version(5, 1, one.key), long)
	}
	for _, key := range storable() {
		one := *s
		one.key = driver.JoinKey(t.space, key)
		one.holds(one.version(5, 1, one.key), "key "+key)
	}
}

func cacheParams(t *trial) {
	s := t.shelf("k")
	r := s.version(5, 1, "done")
	want := *r
	want.Outcome, want.Refs = success("done"), refs("a", "b")
	want.Providers = []driver.Provider{{Name: "acme", Window: long}}
	s.put(r, long)
	copy(r.Outcome.Value, "gone")
	r.Refs[0].Ref, r.Providers[0].Name, r.Token = "changed", "changed", 9
	s.holds(&want, "after the caller changed what it had put")
}

func cacheGarbage(t *trial) {
	s := t.shelf("k")
	s.put(s.version(5, 1, "x"), long)
	t.ch.Garbage(t.tb, s.c, s.key)
	s.misses("with garbage in its place")
	r := s.version(1, 1, "y")
	s.put(r, long)
	s.holds(r, "put over garbage")
}

func cacheContext(t *trial) {
	s := t.shelf("k")
	r := s.version(5, 1, "x")
	s.put(r, long)
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	began := time.Now()
	if got, err := s.c.Get(ctx, s.key); err == nil && got.Token != 5 {
		t.Errorf("Get under an ended context: token %d, want an error or the copy", got.Token)
	}
	_ = s.c.Put(ctx, &driver.PutParams{Record: s.version(4, 1, "older"), TTL: long})
	if d := time.Since(began); d > 50*t.unit {
		t.Errorf("two calls under an ended context took %v", d)
	}
	s.holds(r, "afterwards")
}
