package storetest_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

// everything is what a reference can do.
func everything() storetest.Capabilities {
	return storetest.Capabilities{Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Reuser: true, Watcher: true}
}

// harness is that of a reference with the bug, in bubbles.
func harness(b bug) storetest.Harness {
	return storetest.Harness{
		New: func(testing.TB) driver.Backend { return full{newReference(b)} },
		Pair: func(testing.TB) (x, y driver.Backend) {
			one, two := newReference(b), newReference(b)
			if b != handlesApart {
				two.data = one.data
			}
			return full{one}, full{two}
		},
		Wrap: synctest.Test,
		Pause: func(_ testing.TB, between func()) (paused, other driver.Backend) {
			one, two := newReference(b), newReference(b)
			one.data, one.between = two.data, between
			return full{one}, full{two}
		},
		Corrupt: func(_ testing.TB, x driver.Backend, key string, kind storetest.CorruptKind) bool {
			x.(full).corrupt(key, kind) //nolint:errcheck // the harness made it
			return true
		},
		RawBytes: func(_ testing.TB, x driver.Backend, key string) []byte {
			r, _ := x.(full)
			r.data.mu.Lock()
			defer r.data.mu.Unlock()
			return slices.Clone(r.data.records[r.spell(key)])
		},
		Restart: func(_ testing.TB, x driver.Backend) driver.Backend {
			r, _ := x.(full)
			if b == restartForgetsToken {
				r.data.token = 0
			}
			again := newReference(b)
			again.data = r.data
			return full{again}
		},
		Block: func(_ testing.TB, x driver.Backend, key string) func() {
			r, _ := x.(full)
			block := func(on bool) {
				r.data.mu.Lock()
				defer r.data.mu.Unlock()
				r.data.blocked[key] = on
			}
			block(true)
			return func() { block(false) }
		},
		Capabilities: everything(),
	}
}

// corrupt damages a stored record.
func (r full) corrupt(key string, kind storetest.CorruptKind) {
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	raw := r.data.records[r.spell(key)]
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		panic(err)
	}
	switch kind {
	case storetest.Truncated:
		raw = raw[:len(raw)/2]
	case storetest.UnknownState:
		fields["State"] = "zombie"
	case storetest.HigherFormat:
		fields["Format"] = 2
	case storetest.Empty:
		raw = nil
	case storetest.WrongType:
		raw = []byte(`["a list"]`)
	case storetest.MissingDeadline:
		delete(fields, "LeaseEnds")
	case storetest.ZeroDeadline:
		fields["LeaseEnds"] = time.Time{}
	case storetest.MissingOutcome:
		delete(fields, "Outcome")
	}
	switch kind {
	case storetest.Truncated, storetest.Empty, storetest.WrongType:
	default:
		raw, _ = json.Marshal(fields)
	}
	r.data.records[r.spell(key)] = raw
}
