package storetest_test

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/idem-go/idem/driver"
)

// reference is the plainest backend that keeps the contract: records as JSON in
// a map, one mutex. With a bug it keeps all of the contract but one sentence.
// It is written apart from memstore, so that the suite is not tested by the code
// that it is for.
type reference struct {
	data    *data
	bug     bug
	between func() // see storetest.Harness.Pause
}

// data is what handles share. mu guards all of it.
type data struct {
	mu      sync.Mutex
	records map[string][]byte
	token   uint64 // the last one given
	watches map[string]map[chan struct{}]bool
	blocked map[string]bool           // held by another transaction
	kept    map[string][]byte         // of the bug that retains parameters
	shared  map[string]*driver.Record // of the bug that shares snapshots
	values  map[string][]byte         // of the bugs that share what claims find
	answer  *driver.ClaimResult       // of the bug that keeps the caller's memory
}

func newReference(b bug) *reference {
	return &reference{bug: b, data: &data{
		records: map[string][]byte{}, watches: map[string]map[chan struct{}]bool{}, blocked: map[string]bool{},
		kept: map[string][]byte{}, shared: map[string]*driver.Record{}, values: map[string][]byte{},
	}}
}

// stored is a record as JSON. Deadlines are pointers so that a missing one
// shows.
type stored struct {
	Format     int
	State      string
	Doubt      bool `json:",omitempty"`
	Held       bool `json:",omitempty"`
	Settled    bool `json:",omitempty"`
	Owner      driver.Owner
	Token      uint64
	Attempt    int
	Print      driver.Fingerprint
	Providers  []window             `json:",omitempty"`
	Refs       []driver.ProviderRef `json:",omitempty"`
	Outcome    *driver.Outcome      `json:",omitempty"`
	Audit      driver.Audit
	Revision   uint64     `json:",omitempty"`
	LeaseEnds  *time.Time `json:",omitempty"`
	KeptUntil  *time.Time `json:",omitempty"`
	ClaimedAt  time.Time
	RecordedAt time.Time
	ChangedAt  time.Time
}

type window struct {
	Name   string
	Window time.Duration
	Since  time.Time
}

// load reads the record of key. nil, nil is absent: also what has expired.
func (r *reference) load(key string) (*stored, error) {
	raw, ok := r.data.records[r.spell(key)]
	if !ok {
		return nil, nil
	}
	var rec stored
	if err := json.Unmarshal(raw, &rec); err != nil || !r.valid(&rec) {
		if r.bug == garbageIsAbsent {
			return nil, nil
		}
		if r.bug == garbageIsUnavail {
			return nil, driver.ErrUnavailable
		}
		return nil, driver.ErrCorrupt
	}
	if rec.KeptUntil != nil && !time.Now().Before(*rec.KeptUntil) && r.bug != expiredStays {
		if r.bug == unknownExpires || r.bug == heldLateEnds || rec.State != "claimed" && rec.State != "held" {
			return nil, nil
		}
	}
	return &rec, nil
}

func (r *reference) valid(rec *stored) bool {
	if rec.Format != 1 && r.bug != formatIgnored || rec.Token == 0 {
		return false
	}
	switch rec.State {
	case "claimed":
		if r.bug == noDeadlineIsExpired && (rec.LeaseEnds == nil || rec.LeaseEnds.IsZero()) {
			long := time.Unix(1, 0)
			rec.LeaseEnds = &long
		}
		return rec.LeaseEnds != nil && !rec.LeaseEnds.IsZero()
	case "succeeded", "failed":
		if r.bug == missingOutcomeEmpty && rec.Outcome == nil {
			rec.Outcome = &driver.Outcome{}
		}
		return rec.Outcome != nil && rec.KeptUntil != nil
	case "released", "held":
		return true
	}
	if r.bug == stateIsReleased {
		rec.State = "released"
		return true
	}
	return false
}

func (r *reference) save(key string, rec *stored) {
	rec.ChangedAt = time.Now()
	raw, err := json.Marshal(rec)
	if err != nil {
		panic(err)
	}
	r.data.records[r.spell(key)] = raw
	if was := r.data.shared[key]; was != nil {
		*was = r.show(key, rec)
	}
}

// next is a token higher than any before.
func (r *reference) next(rec *stored) uint64 {
	if r.bug == tokenPerRecord {
		if rec == nil {
			return 1
		}
		return rec.Token + 1
	}
	r.data.token++
	return r.data.token
}

func (rec *stored) ended(now time.Time) bool {
	return rec.State == "claimed" && !now.Before(*rec.LeaseEnds)
}

func (rec *stored) done() bool { return rec.State == "succeeded" || rec.State == "failed" }

func (rec *stored) unknown(now time.Time) bool { return rec.State == "held" || rec.ended(now) }

// show makes the snapshot.
func (r *reference) show(key string, rec *stored) driver.Record {
	now := time.Now()
	out := driver.Record{
		Key: key, Doubt: rec.Doubt, Held: rec.Held, Owner: rec.Owner, Token: rec.Token, Attempt: rec.Attempt,
		Fingerprint: rec.Print, Refs: rec.Refs, Audit: rec.Audit, Format: rec.Format, Revision: rec.Revision,
		ClaimAge: now.Sub(rec.ClaimedAt), ClaimedAt: rec.ClaimedAt, RecordedAt: rec.RecordedAt,
	}
	switch {
	case rec.State == "succeeded":
		out.State = driver.Succeeded
	case rec.State == "failed":
		out.State = driver.Failed
	case rec.State == "released":
		out.State = driver.Released
	case rec.unknown(now):
		out.State = driver.Unknown
	default:
		out.State, out.LeaseLeft = driver.Claimed, rec.LeaseEnds.Sub(now)
	}
	if rec.Outcome != nil {
		out.Outcome = *rec.Outcome
	}
	if rec.KeptUntil != nil && (rec.done() || rec.State == "released") {
		out.RetentionLeft = rec.KeptUntil.Sub(now)
	}
	for _, w := range rec.Providers {
		out.Providers = append(out.Providers, driver.Provider{Name: w.Name, Window: w.Window, Elapsed: now.Sub(w.Since)})
	}
	r.distort(key, rec, &out)
	return out
}

func (r *reference) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	if err := r.usable(ctx, key); err != nil {
		return nil, err
	}
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	rec, err := r.load(key)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, driver.ErrNotFound
	}
	if r.bug == inspectExtends && rec.State == "claimed" {
		later := rec.LeaseEnds.Add(time.Second)
		rec.LeaseEnds = &later
		r.save(key, rec)
	}
	r.extend(key, rec)
	out := r.show(key, rec)
	if r.bug == snapshotsShared {
		r.data.shared[key] = &out
	}
	return &out, nil
}

// current finds the record if ref is its current claim. settled asks for the
// last claim instead, also if it was settled.
func (r *reference) current(ref driver.Ref, zero, settled bool) (*stored, error) {
	rec, err := r.load(ref.Key)
	if err != nil {
		return nil, err
	}
	nobody := ref.Owner == (driver.Owner{}) && r.bug != zeroOwnerHolds
	if rec == nil || nobody || rec.Owner != ref.Owner || rec.Settled && !settled {
		return rec, driver.ErrLeaseLost
	}
	if rec.Token != ref.Token && (!zero || ref.Token != 0) {
		return rec, driver.ErrLeaseLost
	}
	return rec, nil
}
