package movestore

import (
	"context"
	"errors"

	"github.com/idem-go/idem/driver"
)

// Redact implements [driver.Editor]: in both stores. The token is that of the
// record that Inspect shows. A call for the key that comes between the two may be
// copying the old outcome: then Redact returns an error. After an error, call it
// again, with the token that Inspect shows then.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	if err := b.edit(ctx, key, p, driver.Editor.Redact); err != nil {
		return err
	}
	return b.nowhere(ctx, key, func(rec *driver.Record) bool {
		return rec.State == driver.Claimed || rec.State.Completed() && rec.Outcome.Body != driver.BodyRedacted
	})
}

// Reset implements [driver.Editor]: in both stores. The token is that of the
// record that Inspect shows. A call for the key that comes between the two may copy
// the old outcome back: then Reset returns an error, which is also what it does if
// the key runs again already. After an error, look at the record.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	if err := b.edit(ctx, key, p, driver.Editor.Reset); err != nil {
		return err
	}
	return b.nowhere(ctx, key, func(rec *driver.Record) bool { return rec.State == driver.Claimed || rec.State.Completed() })
}

// nowhere looks into both stores after an edit, for what a call has put there, or
// is about to: whoever has read the old outcome before the edit has claimed before.
func (b *Backend) nowhere(ctx context.Context, key string, found func(*driver.Record) bool) error {
	for _, s := range []driver.Backend{b.first, b.other} {
		switch rec, err := s.Inspect(ctx, key); {
		case errors.Is(err, driver.ErrNotFound):
		case err != nil:
			return unsure(err)
		case found(rec):
			return errAgain
		}
	}
	return nil
}

var errAgain = errors.New("movestore: the key was edited, and is claimed or has an outcome again: look at its record")

// edit changes the record that Inspect shows, by compare-and-set on its token, and
// then the other store's.
func (b *Backend) edit(ctx context.Context, key string, p *driver.EditParams,
	change func(driver.Editor, context.Context, string, *driver.EditParams) error,
) error {
	one, two := b.first, b.other
	if _, there, err := b.shown(ctx, key); err == nil && there == b.other {
		one, two = two, one
	}
	first, ok := driver.As[driver.Editor](one)
	second, too := driver.As[driver.Editor](two)
	if !ok || !too {
		return errors.ErrUnsupported
	}
	rec, err := two.Inspect(ctx, key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return change(first, ctx, key, p)
	case err != nil:
		return err
	case rec.State == driver.Claimed: // what it writes when it ends is not edited
		return driver.ErrConflict
	}
	if err := change(first, ctx, key, p); err != nil {
		return err
	}
	there := *p
	there.Token = rec.Token
	err = change(second, ctx, key, &there)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case errors.Is(err, driver.ErrConflict) && !rec.State.Completed():
		return nil // there was no outcome, and a claim there began after the edit
	}
	return unsure(err)
}
