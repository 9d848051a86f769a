package movestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

// copyLease is how long a copy's own claim in the new store lasts, at most, if the
// copying process dies.
const copyLease = time.Minute

// Copied is what [Backend.Copy] found in the old store and did.
type Copied struct {
	// Outcomes were recorded in the new store, Doubts left there as they were in
	// the old one, and There is what it had already.
	Outcomes, Doubts, There int
	// Left is what could not be copied, because it is being used: copy again. At
	// most ten of the Keys are told.
	Left int
	Keys []string
}

// Copy brings all that the old store has to the new one: outcomes with what is
// left of their retention, and keys whose outcome is unknown or held, so that they
// stay so. When it returns without an error and with Left 0, while all processes
// are of the second deploy, the third one may begin. It is not needed by those who
// wait until all that the old store had has expired.
//
// It may be cancelled and repeated, and run beside other processes. The old store
// must be a [driver.Lister], else it returns errors.ErrUnsupported.
func (b *Backend) Copy(ctx context.Context) (*Copied, error) {
	c := &Copied{}
	lister, ok := driver.As[driver.Lister](b.old())
	if !ok {
		return c, fmt.Errorf("movestore: Copy: the old store cannot list its records: %w", errors.ErrUnsupported)
	}
	for page := (&driver.ListParams{Limit: 500}); ; {
		res, err := lister.List(ctx, page)
		if err != nil {
			return c, err
		}
		for i := range res.Records {
			if err := b.copyKey(ctx, res.Records[i].Key, c); err != nil {
				return c, err
			}
		}
		if res.Next == "" {
			return c, nil
		}
		page.After = res.Next
	}
}

// copyKey brings one record over.
func (b *Backend) copyKey(ctx context.Context, key string, c *Copied) error {
	rec, err := b.old().Inspect(ctx, key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err != nil:
		return err
	case rec.State == driver.Released && !rec.Doubt:
		return nil // nothing happened
	case rec.State == driver.Claimed:
		c.left(key)
		return nil
	}
	there, err := b.next().Inspect(ctx, key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
	case err != nil:
		return err
	case carries(there, rec):
		c.There++
		return nil
	}
	return b.bring(ctx, rec, c)
}

func (c *Copied) left(key string) {
	c.Left++
	if len(c.Keys) < 10 {
		c.Keys = append(c.Keys, key)
	}
}

// carries reports whether a record of the new store says all that the old one's
// does.
func carries(there, rec *driver.Record) bool {
	switch {
	case there.State.Completed():
		return true
	case rec.State.Completed():
		return false
	}
	return (there.Doubt || there.State == driver.Unknown) && (there.Held || !rec.Held) &&
		len(withRefs(there.Refs, rec.Refs)) == len(there.Refs) && windowsEnd(there.Providers, rec.Providers)
}

// windowsEnd reports whether no window of there lasts longer than that provider's
// in old, but for what passes between two reads.
func windowsEnd(there, old []driver.Provider) bool {
	for _, p := range old {
		i := slices.IndexFunc(there, func(q driver.Provider) bool { return q.Name == p.Name })
		if i < 0 || there[i].Left() > max(p.Left(), 0)+time.Second {
			return false
		}
	}
	return true
}

// bring claims the key in the new store, looks at the old one again, and leaves
// what it says.
func (b *Backend) bring(ctx context.Context, rec *driver.Record, c *Copied) error {
	ref, there, ok, err := b.hold(ctx, rec)
	if err != nil {
		return err
	}
	if !ok {
		c.left(rec.Key)
		return nil
	}
	rec, err = b.old().Inspect(ctx, rec.Key)
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return errors.Join(err, b.next().Release(ctx, ref, &driver.ReleaseParams{Doubt: true, Retention: b.DefaultRetention()}))
	}
	switch {
	case err != nil || rec.State == driver.Released && !rec.Doubt: // reset, or expired, meanwhile
		return b.next().Release(ctx, ref, &driver.ReleaseParams{Retention: b.DefaultRetention()})
	case rec.State.Completed():
		c.Outcomes++
		return b.next().Complete(ctx, ref, &driver.CompleteParams{Outcome: rec.Outcome, Retention: b.keeps(rec)})
	}
	if !windowsEnd(there.Providers, rec.Providers) {
		// A window cannot be shortened. It is forgotten, and begins with what is left
		// of it. If this process dies between the two, the old store has the doubt.
		if err := b.next().Release(ctx, ref, &driver.ReleaseParams{NotExecuted: true, Retention: b.keeps(rec)}); err != nil {
			return err
		}
		least := *rec
		least.Providers = withProviders(there.Providers, rec.Providers)
		if ref, _, ok, err = b.hold(ctx, &least); err != nil {
			return err
		}
		if !ok {
			c.left(rec.Key)
			return nil
		}
	}
	if len(rec.Refs) > 0 {
		if err := b.next().Annotate(ctx, ref, &driver.AnnotateParams{Refs: rec.Refs}); err != nil {
			return err
		}
	}
	c.Doubts++
	return b.next().Release(ctx, ref, &driver.ReleaseParams{Held: rec.Held || there.Held, Doubt: true, Retention: b.keeps(rec)})
}

// hold claims the key of rec in the new store, whatever is recorded there. there is
// its record then; ok is false if it is in use.
func (b *Backend) hold(ctx context.Context, rec *driver.Record) (ref driver.Ref, there *driver.Record, ok bool, err error) {
	p := &driver.ClaimParams{
		Key: rec.Key, Lease: copyLease, Retention: b.keeps(rec),
		Take: driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld,
	}
	if !rec.Fingerprint.IsZero() {
		p.Fingerprints = []driver.Fingerprint{rec.Fingerprint}
	}
	for _, pr := range rec.Providers {
		p.Providers = append(p.Providers, driver.ProviderWindow{Name: pr.Name, Window: max(pr.Left(), time.Millisecond)})
	}
	if _, err := rand.Read(p.Owner[:]); err != nil {
		return ref, nil, false, err
	}
	res, err := b.next().Claim(ctx, p)
	if err != nil {
		return ref, nil, false, err
	}
	ok = res.Fact == driver.Acquired || res.Fact == driver.TakenOver
	return driver.Ref{Key: rec.Key, Owner: p.Owner, Token: res.Record.Token}, &res.Record, ok, nil
}

// keeps is how long the new store must keep what the old one has.
func (b *Backend) keeps(rec *driver.Record) time.Duration {
	if rec.RetentionLeft > 0 {
		return rec.RetentionLeft
	}
	return b.DefaultRetention()
}
