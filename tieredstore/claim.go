package tieredstore

import (
	"context"
	"time"

	"github.com/idem-go/idem/driver"
)

// Claim implements [driver.Backend]. A copy in the fast tier answers for a
// completed record, its fingerprint included (I5); everything else is the
// archive's to answer, in one step (I11). A claim that expects a token is an
// operator's, and is not answered from a copy.
func (b *Backend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if p.ExpectToken == 0 {
		if res := answerFrom(b.fast.get(ctx, p.Key), p); res != nil {
			return res, nil
		}
	}
	if err := b.checkArchive(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	b.counts.claims.Add(1)
	res, err := b.archive.Claim(ctx, p)
	if err == nil && res != nil && res.Fact == driver.Completed {
		b.refill(ctx, &res.Record, began)
	}
	return res, err
}

// answerFrom is the answer that a copy gives to a claim; nil if it gives none. A
// fingerprint made with a key that the claim does not know is the archive's to
// report (I12).
func answerFrom(rec *driver.Record, p *driver.ClaimParams) *driver.ClaimResult {
	if rec == nil {
		return nil
	}
	equal, known := rec.Fingerprint.Match(p.Fingerprints)
	switch {
	case !known:
		return nil
	case equal:
		return &driver.ClaimResult{Fact: driver.Completed, Record: *rec}
	}
	res := &driver.ClaimResult{Fact: driver.Mismatch, Record: *rec}
	res.Record.Outcome = driver.Outcome{} // of another request
	return res
}

// Complete implements [driver.Backend]. The outcome is the archive's; only when
// the archive has it, a copy is put. What the copy costs is bounded by twice
// FastTimeout, and its failure is nobody's error.
func (b *Backend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	b.counts.completes.Add(1)
	if err := b.archive.Complete(ctx, ref, p); err != nil {
		return err
	}
	b.copyRecord(ctx, ref.Key)
	return nil
}

// Refresh implements [driver.Refresher]: it puts a copy of what the archive has.
func (b *Backend) Refresh(ctx context.Context, key string) {
	if inner, ok := driver.As[driver.Refresher](b.archive); ok {
		inner.Refresh(ctx, key)
	}
	b.copyRecord(ctx, key)
}
