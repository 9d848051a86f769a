package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backoff"
)

// How the broker delivers again what was not settled: not sooner than the error
// asks for, nor than leastPause, and then up to growingPause later, at random.
// What stands in the way may be an outage of the store, so that it goes on for
// giveUpAfter, however many tries that makes.
const (
	leastPause   = 50 * time.Millisecond
	growingMost  = 2 * time.Second
	giveUpAfter  = 10 * time.Minute
	maxReasons   = 8 // kept of a message
	reasonLength = 300
)

// trouble is what a message has met that was not settled at once.
type trouble struct {
	since   time.Time // of the first failure
	tries   int
	reasons []reason // distinct ones, in the order of their first appearance
	last    string   // the last error's text
}

// reason is one kind of failure, and how often it came.
type reason struct {
	code  string
	times int
}

// failed notes that the handling of m failed and returns how long to wait before
// it is delivered again. It reports false when that is to end.
func (m *message) failed(e ending, now time.Time) (pause time.Duration, more bool) {
	if m.trouble == nil {
		m.trouble = &trouble{since: now}
	}
	t := m.trouble
	t.tries++
	t.note(e)
	if now.Sub(t.since) >= giveUpAfter {
		return 0, false
	}
	growing := backoff.Policy{Base: leastPause, Cap: growingMost}
	return max(e.after, leastPause) + growing.Delay(t.tries, 0, rand.Uint64()), true
}

func (t *trouble) note(e ending) {
	code := codeOf(e)
	if e.err != nil {
		t.last = e.err.Error()
		t.last = t.last[:min(len(t.last), reasonLength)]
	}
	at := slices.IndexFunc(t.reasons, func(r reason) bool { return r.code == code })
	switch {
	case at >= 0:
		t.reasons[at].times++
	case len(t.reasons) < maxReasons:
		t.reasons = append(t.reasons, reason{code, 1})
	}
}

// codeOf names a failure: the code of idem's error, else what the provider said.
func codeOf(e ending) string {
	var own *idem.Error
	switch {
	case e.kind == killed:
		return "killed"
	case errors.As(e.err, &own):
		return own.Code
	}
	for _, known := range []error{errRefused, errSilent} {
		if errors.Is(e.err, known) {
			return known.Error()
		}
	}
	return "other"
}

// String tells the whole story.
func (t *trouble) String() string {
	parts := make([]string, len(t.reasons))
	for i, r := range t.reasons {
		parts[i] = fmt.Sprintf("%d x %s", r.times, r.code)
	}
	return fmt.Sprintf("%d tries: %s; the last: %s", t.tries, strings.Join(parts, ", "), t.last)
}

// slowest is the delivery that took the longest from its first failure to its
// end. It is safe for concurrent use.
type slowest struct {
	mu sync.Mutex // guards the fields below
	d  slowDelivery
}

// slowDelivery tells why a delivery took long.
type slowDelivery struct {
	Delivery string        `json:"delivery"`
	Key      string        `json:"key"`
	Took     time.Duration `json:"took_ns"`
	Story    string        `json:"story"`
}

// settled notes that a delivery has come to its end.
func (s *slowest) settled(m *message, now time.Time) {
	if m.trouble == nil {
		return
	}
	took := now.Sub(m.trouble.since)
	s.mu.Lock()
	defer s.mu.Unlock()
	if took > s.d.Took {
		s.d = slowDelivery{m.ID, m.Key, took, m.trouble.String()}
	}
}
