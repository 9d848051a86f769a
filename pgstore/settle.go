package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/idem-go/idem/driver"
)

// Each step of a claim's owner is one conditional UPDATE. Only when it affects
// no row is the record read, to say why.

// Renew implements [driver.Backend].
func (b *Backend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	if err := errors.Join(ended(ctx), checkLease(p.Lease), checkRetention(p.Retention)); err != nil {
		return err
	}
	return b.renew(ctx, b.pool, ref, p)
}

func (b *Backend) renew(ctx context.Context, l link, ref driver.Ref, p *driver.RenewParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	if ref.Token == 0 {
		return b.tokenless(ctx, l, ref)
	}
	done, err := l.affect(ctx, b.sql.renew, ref.Key, ref.Owner[:], token(ref), toMicros(p.Lease))
	if err != nil {
		return fail(ctx, err)
	}
	if done {
		return nil
	}
	r, err := b.refusal(ctx, l, ref)
	if err != nil {
		return err
	}
	return settled(r)
}

// settled is the refusal of a step after the last one of a claim.
func settled(r *row) error {
	if r.state == stateClaimed {
		return errors.New("pgstore: the claim stands, but the step had no effect: look again")
	}
	return errLeaseLost("the claim was settled")
}

// tokenless refuses a step that needs the token.
func (b *Backend) tokenless(ctx context.Context, l link, ref driver.Ref) error {
	if _, err := b.refusal(ctx, l, ref); err != nil {
		return err
	}
	return errLeaseLost("this step needs the token")
}

// Annotate implements [driver.Backend].
func (b *Backend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return b.annotate(ctx, b.pool, ref, p)
}

func (b *Backend) annotate(ctx context.Context, l link, ref driver.Ref, p *driver.AnnotateParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	if ref.Token == 0 {
		return b.tokenless(ctx, l, ref)
	}
	refs, err := encodeRefs(p.Refs)
	if err != nil {
		return err
	}
	args := append([]any{ref.Key, ref.Owner[:], token(ref), refs, p.NotExecuted}, audit(p.Audit)...)
	done, err := l.affect(ctx, b.sql.annotate, args...)
	if err != nil {
		return fail(ctx, err)
	}
	if done {
		return nil
	}
	r, err := b.refusal(ctx, l, ref)
	if err == nil && r.state != stateClaimed {
		err = settled(r)
	}
	return err // nil: everything was there already
}

// Complete implements [driver.Backend].
func (b *Backend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	if err := errors.Join(ended(ctx), checkRetention(p.Retention)); err != nil {
		return err
	}
	return b.complete(ctx, b.pool, ref, p)
}

func (b *Backend) complete(ctx context.Context, l link, ref driver.Ref, p *driver.CompleteParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	o := storableOutcome(&p.Outcome)
	args := append([]any{
		ref.Key, ref.Owner[:], token(ref), o.Failed, o.Recovered, int(o.Body), text(o.Codec), value(&o), message(&o, o.Code), message(&o, o.Message),
		toMicros(p.Retention),
	}, audit(p.Audit)...)
	done, err := l.affect(ctx, b.sql.complete, append(args, b.sql.channel, b.payload(ref.Key))...)
	if err != nil {
		return fail(ctx, err)
	}
	if done {
		b.met.Add(ref.Key)
		return nil
	}
	r, err := b.refusal(ctx, l, ref)
	if err != nil {
		return err
	}
	stored := r.result()
	switch {
	case r.state == stateCompleted && stored.Equal(&o):
		return nil // said again (I6)
	case r.state == stateCompleted:
		return errLeaseLost("another outcome is recorded")
	}
	return settled(r)
}

// Release implements [driver.Backend].
func (b *Backend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	if err := errors.Join(ended(ctx), checkRelease(p)); err != nil {
		return err
	}
	return b.release(ctx, b.pool, ref, p)
}

func (b *Backend) release(ctx context.Context, l link, ref driver.Ref, p *driver.ReleaseParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	args := append([]any{ref.Key, ref.Owner[:], token(ref), p.Held, p.Doubt, p.NotExecuted, toMicros(p.Retention)}, audit(p.Audit)...)
	done, err := l.affect(ctx, b.sql.release, append(args, b.sql.channel, b.payload(ref.Key))...)
	if err != nil {
		return fail(ctx, err)
	}
	if done {
		return nil
	}
	r, err := b.refusal(ctx, l, ref)
	if err == nil && r.state != stateReleased {
		err = settled(r)
	}
	return err // nil: said again (I6)
}

// refusal reads why an owner's step affected no row: an error unless the
// record's last claim is ref's, settled or not (I3). Token 0 stands for whatever
// token the owner holds.
func (b *Backend) refusal(ctx context.Context, l link, ref driver.Ref) (*row, error) {
	r := &row{key: ref.Key}
	found, err := l.ask(ctx, b.sql.look, r, ref.Key)
	switch {
	case err != nil:
		return nil, fail(ctx, err)
	case !found:
		return nil, errLeaseLost("there is no record")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	switch {
	case r.expired():
		return nil, errLeaseLost("there is no record")
	case !r.ownedBy(ref.Owner):
		return nil, errLeaseLost("another owner holds it, or nobody")
	case ref.Token != 0 && ref.Token != r.fencing():
		return nil, errLeaseLost("the owner holds another token")
	}
	return r, nil
}

// token as an argument. One that no record can have stays one that none has.
func token(ref driver.Ref) int64 {
	if ref.Token>>63 != 0 {
		return -1
	}
	return int64(ref.Token) //nolint:gosec // looked at above
}

// audit are the three arguments of an audit that may be missing.
func audit(a *driver.Audit) []any {
	if a == nil {
		return []any{false, "", ""}
	}
	return []any{true, storable(a.By), storable(a.Why)}
}

// storableOutcome is o with texts that the columns can hold (C25). The value is
// bytes and needs nothing.
func storableOutcome(o *driver.Outcome) driver.Outcome {
	out := *o
	out.Codec, out.Code, out.Message = storable(o.Codec), storable(o.Code), storable(o.Message)
	return out
}

// value is never NULL where there is a body.
func value(o *driver.Outcome) []byte {
	if o.Value == nil && !o.Failed && o.Body == driver.BodyKept {
		return []byte{}
	}
	return o.Value
}

// message is a text of a failure; a success has none.
func message(o *driver.Outcome, s string) any {
	if !o.Failed && s == "" {
		return nil
	}
	return s
}

// payload of a notification: a digest, because a key may identify a person.
func (b *Backend) payload(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
