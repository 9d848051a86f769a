package movestore

import (
	"context"
	"errors"

	"github.com/idem-go/idem/driver"
)

// Redact implements [driver.Editor]: in both stores. The token is that of the
// record that Inspect shows. After an error, call it again.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	return b.edit(ctx, key, p, driver.Editor.Redact)
}

// Reset implements [driver.Editor]: in both stores. The token is that of the
// record that Inspect shows. A call for the key that comes between the two may copy
// the old outcome back: then Reset returns an error, which is also what it does if
// the key has already run again. After an error, look at the record.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	if err := b.edit(ctx, key, p, driver.Editor.Reset); err != nil {
		return err
	}
	switch rec, err := b.Inspect(ctx, key); {
	case err != nil && !errors.Is(err, driver.ErrNotFound):
		return unsure(err)
	case err == nil && rec.State.Completed():
		return errAgain
	}
	return nil
}

var errAgain = errors.New("movestore: the key was reset, and has an outcome again: look at its record")

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
