package faultstore

import "github.com/idem-go/idem/driver"

// Entry is one call in the log of a Store.
type Entry struct {
	Call
	// Late: [Store.Replay] made the call. It has a Seq and no Nth.
	Late bool
	// Sent counts how often the call was sent to the backend within: 0 means that
	// it was not applied, or not yet.
	Sent int
	// Fact is what the backend answered last to a Claim; 0 is none.
	Fact driver.Fact
	// Inner is the error that the backend returned last.
	Inner error
	// Returned: the caller has an answer, and Err is its error.
	Returned bool
	Err      error
}

// Log returns a copy of the log, in the order of Seq. The entry of a call that
// is under way shows how far it is.
func (s *Store) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make([]Entry, len(s.log))
	for i, e := range s.log {
		entries[i] = *e
	}
	return entries
}

// Count returns how many calls of method there were, replays aside; "" counts
// all methods.
func (s *Store) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method != "" {
		return s.nth[method]
	}
	sum := 0
	for _, n := range s.nth {
		sum += n
	}
	return sum
}

// Nth returns the nth call of method, counted from 1, for [Store.Replay].
func (s *Store) Nth(method string, nth int) (Call, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.log {
		if e.Method == method && e.Nth == nth {
			return e.Call, true
		}
	}
	return Call{}, false
}

func (s *Store) begin(c Call) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nth[c.Method]++
	c.Nth = s.nth[c.Method]
	return s.append(c, false)
}

func (s *Store) beginLate(c Call) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Nth = 0
	return s.append(c, true)
}

// append needs mu.
func (s *Store) append(c Call, late bool) *Entry {
	c.Seq = len(s.log) + 1
	e := &Entry{Call: c, Late: late}
	s.log = append(s.log, e)
	return e
}

func (s *Store) sending(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Sent++
}

func (s *Store) answered(e *Entry, fact driver.Fact, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Fact, e.Inner = fact, err
}

func (s *Store) returned(e *Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Returned, e.Err = true, err
}
