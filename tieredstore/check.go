package tieredstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// Check implements [driver.Checker]: it asks both tiers. A tier that does not
// answer is a warning, because the other one can still do its part: the archive
// is then asked again before the first claim that reaches it, and refused there
// if need be.
func (b *Backend) Check(ctx context.Context) error {
	return errors.Join(b.findings(ctx), b.fastFindings(ctx))
}

// findings of the archive.
func (b *Backend) findings(ctx context.Context) error {
	err := b.askArchive(ctx)
	var finding *driver.Finding
	if err == nil || errors.As(err, &finding) {
		return err
	}
	return &driver.Finding{
		Severity: driver.Warn, Code: "archive_unreachable",
		Remedy: "only duplicates with a copy in the fast tier are answered until the archive can be checked: " + err.Error(),
	}
}

// fastFindings are those of the fast tier, whose refusals are warnings: it decides
// nothing.
func (b *Backend) fastFindings(ctx context.Context) error {
	checker, ok := b.fast.cache.(driver.Checker)
	if !ok {
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, deletePatience*b.opts.FastTimeout)
	defer cancel()
	err := checker.Check(bound)
	if driver.OnlyWarnings(err) {
		return err
	}
	return &driver.Finding{Severity: driver.Warn, Code: "fast_tier", Remedy: "the fast tier may be of no use: " + err.Error()}
}

// checkArchive asks a Checker before the first claim that reaches the archive, if
// Check could not.
func (b *Backend) checkArchive(ctx context.Context) error {
	if !b.unchecked.Load() {
		return nil
	}
	if err := b.askArchive(ctx); !driver.OnlyWarnings(err) {
		return fmt.Errorf("tieredstore: %w: the archive is refused, or could not be checked: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// askArchive asks the archive's Checker, if there is one, and notes that there is
// nothing to refuse.
func (b *Backend) askArchive(ctx context.Context) error {
	checker, ok := driver.As[driver.Checker](b.archive)
	if !ok {
		return nil
	}
	err := checker.Check(ctx)
	if driver.OnlyWarnings(err) {
		b.unchecked.Store(false)
	}
	return err
}
