package tieredstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// ErrStale says that a record was redacted or reset in the archive while the fast
// tier did not answer: it may still serve the old copy, at most for
// Options.Window. Repeat the call when the fast tier answers again, until the error
// is another or none; a repeated Redact changes nothing in the archive, and a
// repeated Reset removes the copy also when it finds the record changed.
var ErrStale = errors.New("the archive is changed, but the fast tier could not be told: call again")

// Redact implements [driver.Editor]. See the package documentation for when the
// copies follow.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	return b.edit(ctx, key, p, driver.Editor.Redact)
}

// Reset implements [driver.Editor]. See the package documentation for when the
// copies follow.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	return b.edit(ctx, key, p, driver.Editor.Reset)
}

// edit removes the copy, changes the archive, and removes the copy again: the
// first marker covers a crash in between, the second is the one that counts.
func (b *Backend) edit(ctx context.Context, key string, p *driver.EditParams,
	change func(driver.Editor, context.Context, string, *driver.EditParams) error,
) error {
	editor, ok := driver.As[driver.Editor](b.archive)
	if !ok {
		return errors.ErrUnsupported
	}
	unreached := b.fast.delete(ctx, key, b.opts.RefillBound)
	b.counts.edits.Add(1)
	if err := change(editor, ctx, key, p); err != nil {
		if unreached != nil && errors.Is(err, driver.ErrConflict) { // maybe a repeated Reset, whose copy is still there
			return fmt.Errorf("%w; tieredstore: %w: %w", err, ErrStale, unnamed{unreached})
		}
		return err
	}
	if err := b.fast.delete(ctx, key, b.opts.RefillBound); err != nil {
		return fmt.Errorf("tieredstore: %w: %w", ErrStale, unnamed{err})
	}
	return nil
}

// unnamed hides the contract's sentinels in an error of the fast tier: they would
// say that nothing was changed, which is true of the fast tier only (I8).
type unnamed struct{ err error }

func (u unnamed) Error() string { return u.err.Error() }

func (u unnamed) Is(target error) bool { return !driver.NoEffect(target) && errors.Is(u.err, target) }

func (u unnamed) As(target any) bool { return errors.As(u.err, target) }
