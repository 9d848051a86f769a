package storetest_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

// shelf is the plainest cache that keeps the contract, or all of it but one
// sentence.
type shelf struct {
	bug     bug
	mu      sync.Mutex
	copies  map[string]boxed
	markers map[string]time.Time
	shared  map[string]*driver.Record
}

type boxed struct {
	raw  []byte
	ends time.Time
	ttl  time.Duration
}

func cacheHarness(b bug) storetest.CacheHarness {
	return storetest.CacheHarness{
		New: func(testing.TB) driver.Cache {
			return &shelf{bug: b, copies: map[string]boxed{}, markers: map[string]time.Time{}, shared: map[string]*driver.Record{}}
		},
		Wrap: synctest.Test,
		Garbage: func(_ testing.TB, c driver.Cache, key string) {
			s, _ := c.(*shelf)
			box := s.copies[key]
			box.raw = []byte("garbage")
			s.copies[key] = box
		},
	}
}

func (s *shelf) spell(key string) string {
	if s.bug == cacheKeysFolded {
		return strings.ToLower(key)
	}
	return key
}

// read returns the live copy.
func (s *shelf) read(key string) (*driver.Record, error) {
	box, ok := s.copies[key]
	if !ok || !time.Now().Before(box.ends) && s.bug != timeIgnored {
		return nil, driver.ErrNotFound
	}
	if s.bug == readingExtends {
		box.ends = time.Now().Add(box.ttl)
		s.copies[key] = box
	}
	if s.bug == copyRetained {
		return s.shared[key], nil
	}
	var r driver.Record
	if err := json.Unmarshal(box.raw, &r); err != nil {
		return nil, driver.ErrCorrupt
	}
	return &r, nil
}

func (s *shelf) Get(ctx context.Context, key string) (*driver.Record, error) {
	if ctx.Err() != nil {
		if s.bug == endedIsEmpty {
			return &driver.Record{}, nil
		}
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.read(s.spell(key))
	switch {
	case err != nil && s.bug == missIsNil:
		return nil, nil
	case err != nil && s.bug == garbageIsCorrupt:
		return nil, err
	case err != nil:
		return nil, driver.ErrNotFound
	}
	if s.bug == copyLacksRefs {
		r.Refs = nil
	}
	return r, nil
}

// newer reports whether next may replace held.
func (s *shelf) newer(next, held *driver.Record) bool {
	switch s.bug {
	case olderWins:
		return true
	case revisionIgnored:
		return next.Token > held.Token
	case tokenIsSigned:
		return int64(next.Token) > int64(held.Token) || next.Token == held.Token && next.Newer(held)
	case tokenIsText:
		a, b := strconv.FormatUint(next.Token, 10), strconv.FormatUint(held.Token, 10)
		return a > b || a == b && next.Newer(held)
	}
	return next.Newer(held)
}

func (s *shelf) Put(ctx context.Context, p *driver.PutParams) error {
	ttl := p.TTL
	if s.bug == noTimeIsForever && ttl <= 0 {
		ttl = time.Hour
	}
	if ctx.Err() != nil || ttl <= 0 || !p.Record.State.Completed() && s.bug != holdsAnything {
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.spell(p.Record.Key)
	marker := key
	if s.bug == markerForAll {
		marker = ""
	}
	if until, ok := s.markers[marker]; ok && (time.Now().Before(until) || s.bug == markerForever) {
		return nil
	}
	held, err := s.read(key)
	if s.bug == putWithoutCheck {
		s.mu.Unlock()
		time.Sleep(time.Millisecond) // in a bubble
		s.mu.Lock()
	}
	if err == nil && !s.newer(p.Record, held) || s.bug == garbageStays && err == driver.ErrCorrupt { //nolint:errorlint // as returned
		return nil
	}
	raw, err := json.Marshal(p.Record)
	s.copies[key] = boxed{raw, time.Now().Add(ttl), ttl}
	s.shared[key] = p.Record
	return err
}

func (s *shelf) Delete(_ context.Context, key string, refuse time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.spell(key)
	if s.bug != deleteKeeps {
		delete(s.copies, key)
	}
	if s.bug == markerForAll {
		key = ""
	}
	until := time.Now().Add(refuse)
	if until.After(s.markers[key]) || s.bug == markerShortened {
		s.markers[key] = until
	}
	if s.bug == noMarker {
		delete(s.markers, key)
	}
	return nil
}
