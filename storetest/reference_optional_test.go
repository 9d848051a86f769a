package storetest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// full is a reference with every optional interface.
type full struct{ *reference }

func (r full) Unwrap() driver.Backend { return r.reference }

func (r full) Self() driver.Backend {
	if r.bug == selfIsAnother {
		return r.reference
	}
	return r
}

func (r full) ClaimInto(ctx context.Context, p *driver.ClaimParams, into *driver.ClaimResult) error {
	res, err := r.Claim(ctx, p)
	if err != nil {
		return err
	}
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	switch last := &r.data.answer; {
	case r.bug == answerMixed && len(res.Record.Refs) == 0:
		res.Record.Refs = into.Record.Refs
	case r.bug == answerKept:
		if *last != nil {
			(*last).Record.Attempt++
		}
		*last = into
	case r.bug == answerShared && len(into.Record.Refs) == len(res.Record.Refs):
		copy(into.Record.Refs, res.Record.Refs)
		res.Record.Refs = into.Record.Refs
	}
	*into = *res
	return nil
}

func (r full) DefaultRetention() time.Duration {
	if r.bug == retainerZero {
		return 0
	}
	return time.Hour
}

func (r full) Check(context.Context) error {
	if r.bug == checkerMute {
		return &driver.Finding{Severity: driver.Warn}
	}
	return &driver.Finding{Severity: driver.Warn, Code: "memory", Remedy: "do not use it for anything but tests"}
}

func (r full) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	woken, hints := make(chan struct{}), make(chan struct{})
	if r.data.watches[key] == nil {
		r.data.watches[key] = map[chan struct{}]bool{}
	}
	r.data.watches[key][woken] = true
	go func() {
		defer close(hints)
		select {
		case <-woken:
		case <-ctx.Done():
			r.data.mu.Lock()
			defer r.data.mu.Unlock()
			if r.bug != watchesNeverEnd {
				delete(r.data.watches[key], woken)
			}
		}
	}()
	return hints, nil
}

func (r full) Redact(_ context.Context, key string, p *driver.EditParams) error {
	return r.edit(key, p, func(rec *stored) error {
		if !rec.done() {
			return driver.ErrConflict
		}
		if rec.Outcome.Body == driver.BodyRedacted && r.bug != redactCounts {
			return errNothing
		}
		rec.Revision++
		o := driver.Outcome{Failed: rec.Outcome.Failed, Code: rec.Outcome.Code, Body: driver.BodyRedacted}
		switch r.bug {
		case redactKeepsMessage:
			o.Message = rec.Outcome.Message
		case redactKeepsValue:
			o.Value = rec.Outcome.Value
		case redactDropsCode:
			o.Code = ""
		case redactKeepsBody:
			if o.Failed {
				o.Body = driver.BodyKept
			}
		}
		rec.Outcome = &o
		if r.bug != redactKeepsRefs {
			rec.Refs = nil
		}
		return nil
	})
}

func (r full) Reset(_ context.Context, key string, p *driver.EditParams) error {
	return r.edit(key, p, func(rec *stored) error {
		if rec.State == "claimed" && !rec.ended(time.Now()) && r.bug != resetTakesLive {
			return driver.ErrConflict
		}
		if r.bug == resetOnlyCompleted && !rec.done() {
			return driver.ErrConflict
		}
		rec.State, rec.Settled, rec.LeaseEnds, rec.Outcome, rec.Revision = "released", true, nil, nil, 0
		rec.Doubt, rec.Held, rec.RecordedAt = rec.Doubt && r.bug == resetKeepsDoubt, false, time.Time{}
		rec.KeptUntil = r.keep(time.Now(), p.Retention)
		if r.bug == resetForgetsAttempts {
			rec.Attempt = 0
		}
		switch r.bug {
		case resetForgetsRequest:
			rec.Print = driver.Fingerprint{}
		case resetForgetsRefs:
			rec.Refs = nil
		}
		if r.bug != resetKeepsOwner {
			rec.Owner = driver.Owner{}
		}
		if r.bug != resetKeepsToken {
			rec.Token = r.next(rec)
		}
		return nil
	})
}

func (r full) edit(key string, p *driver.EditParams, f func(*stored) error) error {
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	rec, err := r.load(key)
	if err != nil {
		return err
	}
	if rec == nil {
		return driver.ErrNotFound
	}
	if rec.Token != p.Token && r.bug != editBlind {
		return driver.ErrConflict
	}
	r.pauseIf(editInTwoSteps)
	if err := f(rec); err != nil {
		if err == errNothing { //nolint:errorlint // never wrapped
			return nil
		}
		return err
	}
	r.audit(rec, &p.Audit, time.Now())
	r.save(key, rec)
	if r.bug == editAllKeys {
		for other := range r.data.records {
			r.save(other, rec)
		}
	}
	return nil
}

func (r full) List(_ context.Context, p *driver.ListParams) (*driver.ListResult, error) {
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	if r.bug == listLimitIgnored {
		limit = 1 << 30
	}
	out := &driver.ListResult{}
	for _, key := range slices.Sorted(maps.Keys(r.data.records)) {
		if key <= p.After && p.After != "" && (r.bug != listRepeats || key < p.After) || !r.matches(key, p.Prefix) {
			continue
		}
		rec, err := r.load(key)
		if err != nil || rec == nil && r.bug != listsExpired {
			continue
		}
		if rec == nil {
			rec = &stored{State: "released"}
		}
		shown := r.show(key, rec)
		if r.bug == listStored && rec.State == "claimed" {
			shown.State = driver.Claimed
		}
		if len(p.States) > 0 && !slices.Contains(p.States, shown.State) {
			continue
		}
		if len(out.Records) == limit {
			out.Next = out.Records[limit-1].Key
			return out, nil
		}
		if r.bug == listExtends && rec.KeptUntil != nil {
			later := rec.KeptUntil.Add(time.Hour)
			rec.KeptUntil = &later
			r.save(key, rec)
		}
		if r.bug != listShowsValue {
			shown.Outcome.Value = nil
		}
		if r.bug == listDropsRefs {
			shown.Refs = nil
		}
		out.Records = append(out.Records, shown)
	}
	return out, nil
}

func (r full) matches(key, prefix string) bool {
	if r.bug == listPrefixIsPattern {
		prefix = strings.TrimRight(prefix, "%*_?")
	}
	return strings.HasPrefix(key, prefix)
}

func (r full) Purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	res := &driver.PurgeResult{}
	if r.bug != purgeUnchecked && (p.Batch < 0 || p.Rate < 0 || p.UnknownAfter < 0) {
		return res, errors.New("not possible")
	}
	batch := max(0, p.Batch)
	if batch == 0 {
		batch = 100
	}
	if r.bug == purgeGiant {
		batch = 1 << 30
	}
	for {
		if err := ctx.Err(); err != nil && r.bug != purgeForgetsSum {
			return res, err
		} else if err != nil {
			return nil, err
		}
		n := r.purgeStep(batch, max(0, p.UnknownAfter))
		if n == 0 {
			return res, nil
		}
		res.Purged += n
		if p.Progress != nil {
			p.Progress(res.Purged)
		}
		if p.Rate > 0 && r.bug != purgeUnpaced {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(p.Rate))
		}
	}
}

func (r full) purgeStep(batch int, unknownAfter time.Duration) (n int64) {
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	var ended []string
	for key := range r.data.records {
		if len(ended) < batch && r.purgeable(key, unknownAfter) {
			ended = append(ended, key)
		}
	}
	r.pauseIf(purgeInTwoSteps)
	for _, key := range ended {
		delete(r.data.records, key)
	}
	return int64(len(ended))
}

func (r full) purgeable(key string, unknownAfter time.Duration) bool {
	rec, err := r.load(key)
	if err != nil {
		return r.bug == purgeTakesGarbage
	}
	if rec == nil {
		return true
	}
	if now := time.Now(); rec.unknown(now) {
		age := now.Sub(rec.ChangedAt)
		if r.bug == purgeByClaimTime {
			age = now.Sub(rec.ClaimedAt)
		}
		if unknownAfter == 0 {
			return r.bug == purgeTakesUnknown
		}
		return age > unknownAfter && r.bug != purgeUnknownIgnored
	}
	if rec.done() && r.bug == purgeFromClaim {
		return !time.Now().Before(rec.KeptUntil.Add(rec.ClaimedAt.Sub(rec.RecordedAt)))
	}
	return r.bug == purgeTakesReleased && rec.State == "released"
}
