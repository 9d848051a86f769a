package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/idem-go/idem/driver"
)

// What is counted of a tier's calls, by what they found.
const (
	claimAcquired = iota
	claimReplayed
	claimInProgress
	claimOther
	renewal
	annotation
	completion
	release
	inspection
	cacheHit
	cacheMiss
	cachePut
	cacheDelete
	failedCall
	kindsOfCalls
)

// callNames are the names in the JSON form; the table shows them with blanks.
var callNames = [kindsOfCalls]string{ //nolint:gochecknoglobals // a constant, but for the language
	"claims_acquired", "claims_replayed", "claims_in_progress", "claims_other", "renewals", "annotations", "completions",
	"releases", "inspections", "reads_hit", "reads_missed", "copies_put", "copies_deleted", "calls_failed",
}

// tier counts the calls that reach one of the places where records are kept.
type tier struct {
	name string
	n    [kindsOfCalls]atomic.Int64
}

// count counts a call: as kind, or as one that failed if the tier did not
// answer.
func (t *tier) count(kind int, err error) {
	if err != nil && (!driver.NoEffect(err) || errors.Is(err, driver.ErrUnavailable)) {
		kind = failedCall
	}
	t.n[kind].Add(1)
}

// tierCalls are the calls of one tier in one pass. Only kinds that occurred are
// there.
type tierCalls struct {
	Tier  string           `json:"tier"`
	Calls map[string]int64 `json:"calls"`
}

// snapshot reads the counters of all tiers.
func snapshot(tiers []*tier) []tierCalls {
	all := make([]tierCalls, len(tiers))
	for i, t := range tiers {
		all[i] = tierCalls{t.name, make(map[string]int64)}
		for kind := range t.n {
			if n := t.n[kind].Load(); n > 0 {
				all[i].Calls[callNames[kind]] = n
			}
		}
	}
	return all
}

// sum adds sign times b to a, tier by tier.
func sum(a, b []tierCalls, sign int64) []tierCalls {
	if a == nil {
		return b
	}
	out := make([]tierCalls, len(a))
	for i := range a {
		out[i] = tierCalls{a[i].Tier, make(map[string]int64)}
		for _, name := range callNames {
			if n := a[i].Calls[name] + sign*b[i].Calls[name]; n != 0 {
				out[i].Calls[name] = n
			}
		}
	}
	return out
}

// words is a counter's name for people.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// countedBackend is a backend whose calls are counted. Optional interfaces are
// reached through Unwrap, and not counted.
type countedBackend struct {
	driver.Backend
	tier *tier
}

// Unwrap makes the backend's optional interfaces found.
func (b *countedBackend) Unwrap() driver.Backend { return b.Backend }

// Claim implements driver.Backend.
func (b *countedBackend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := b.Backend.Claim(ctx, p)
	kind := claimOther
	if err == nil {
		switch res.Fact { //nolint:exhaustive // the rest is counted together
		case driver.Acquired, driver.TakenOver:
			kind = claimAcquired
		case driver.Completed:
			kind = claimReplayed
		case driver.InProgress:
			kind = claimInProgress
		}
	}
	b.tier.count(kind, err)
	return res, err
}

// Renew implements driver.Backend.
func (b *countedBackend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	err := b.Backend.Renew(ctx, ref, p)
	b.tier.count(renewal, err)
	return err
}

// Annotate implements driver.Backend.
func (b *countedBackend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	err := b.Backend.Annotate(ctx, ref, p)
	b.tier.count(annotation, err)
	return err
}

// Complete implements driver.Backend.
func (b *countedBackend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	err := b.Backend.Complete(ctx, ref, p)
	b.tier.count(completion, err)
	return err
}

// Release implements driver.Backend.
func (b *countedBackend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	err := b.Backend.Release(ctx, ref, p)
	b.tier.count(release, err)
	return err
}

// Inspect implements driver.Backend.
func (b *countedBackend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	rec, err := b.Backend.Inspect(ctx, key)
	b.tier.count(inspection, err)
	return rec, err
}
