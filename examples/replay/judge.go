package main

import "sync"

// What the judge knows of an operation.
const (
	wasRefused uint8 = 1 << iota // the handler or the provider refused it for good
	hasFailed                    // its consumer was told so, as the final outcome
	hasOutcome                   // a consumer was told the outcome, as recorded
)

// file is what the judge keeps of an operation: ten bytes with its key, and not
// the key itself, so that a million operations fit.
type file struct {
	facts   uint8
	charges uint8 // of the ledger at the last verdict; stops at 255
}

// judge decides, from the ledger and from what was delivered, whether each
// operation had its effect once. It asks idem nothing. It is safe for
// concurrent use.
type judge struct {
	mu        sync.Mutex // guards the fields below
	files     map[uint64]file
	forgotten int64 // outcomes
}

func newJudge() *judge { return &judge{files: make(map[uint64]file)} }

// delivered notes that an operation was asked for.
func (j *judge) delivered(key string) { j.note(key, 0) }

// refused notes that an operation cannot succeed: its message is malformed, or
// the provider declined it.
func (j *judge) refused(key string) { j.note(key, wasRefused) }

// failed notes that a consumer was given a failure as the final outcome.
func (j *judge) failed(key string) { j.note(key, hasFailed) }

// told notes that a consumer was told an outcome as recorded.
func (j *judge) told(key string) { j.note(key, hasOutcome) }

// begins notes that an operation runs, under a claim that excludes others as
// long as held says so. If somebody was told its outcome before, the store has
// forgotten that. held is asked last: a claim that had ended by then, unnoticed,
// shows nothing.
func (j *judge) begins(key string, held func() bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.files[hash64(key)].facts&hasOutcome != 0 && held() {
		j.forgotten++
	}
}

func (j *judge) note(key string, fact uint8) {
	h := hash64(key)
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.files[h]
	f.facts |= fact
	j.files[h] = f
}

// verdict is what the ledger says.
type verdict struct {
	operations  int64   // distinct keys that were delivered
	effects     int64   // charges
	doubled     int64   // operations with more than one charge
	lost        int64   // operations with no charge, and no refusal that was passed on
	forgotten   int64   // outcomes that were reported, and not found later
	overcharged int64   // sum of the charges after the first of each operation, in minor units
	example     []int64 // the two deliveries that doubled the first doubled effect
}

// verdict reads the whole ledger.
func (j *judge) verdict(l *ledger) verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	for h, f := range j.files {
		j.files[h] = file{facts: f.facts}
	}
	v := verdict{forgotten: j.forgotten}
	var example charge
	l.each(func(_ chargeNumber, c charge) {
		f := j.files[c.operation]
		v.effects++
		switch f.charges {
		case 0:
		case 1:
			if v.doubled++; v.doubled == 1 {
				example = c
			}
			v.overcharged += c.amount
		default:
			v.overcharged += c.amount
		}
		f.charges = min(f.charges, 254) + 1
		j.files[c.operation] = f
	})
	if v.doubled > 0 {
		v.example = []int64{l.first(example.operation).delivery, example.delivery}
	}
	v.operations = int64(len(j.files))
	const final = wasRefused | hasFailed
	for _, f := range j.files {
		if f.charges == 0 && f.facts&final != final {
			v.lost++
		}
	}
	return v
}
