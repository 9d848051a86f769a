package corecases

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// declined is a typed error with a code, which wraps a sentinel.
type declined struct{ reason string }

func (d *declined) Error() string { return "declined: " + d.reason }
func (d *declined) Code() string  { return "card_declined" }
func (d *declined) Unwrap() error { return errPermanent }

func replayedFailure(b *bench) {
	known := &idem.Options{Errors: map[string]error{"card_declined": errPermanent, "other": errBoom}}
	p := b.process(b.one, nil, known)
	fresh := fmt.Errorf("charging: %w", idem.Permanent(&declined{"no funds"}))
	_, err := p.Execute(b.Context(), key, counted(new(int), "", fresh))
	b.matches(err, fresh)
	b.differs(err, idem.ErrRecordedFailure)
	for _, again := range []*process{p, b.process(b.two, nil, known)} {
		res, err := again.Execute(b.Context(), key, b.forbidden())
		b.matches(err, idem.ErrRecordedFailure, errPermanent)
		b.differs(err, errBoom)
		var recorded *idem.RecordedError
		b.that(errors.As(err, &recorded), "the error has its type")
		b.that(recorded.Code == "card_declined" && recorded.Message == fresh.Error(), "code and text are kept: %q, %q", recorded.Code, recorded.Message)
		b.that(!recorded.RecordedAt.IsZero() && res.Replayed, "it says when, and that it is a replay")
	}
	_, err = b.plain(b.two).Execute(b.Context(), key, b.forbidden())
	b.matches(err, idem.ErrRecordedFailure)
	b.differs(err, errPermanent) // nobody told this Store of the sentinel
}

func nothingRecorded(b *bench) {
	p := b.plain(b.one)
	for i, failed := range []error{
		context.Canceled, context.DeadlineExceeded, idem.ErrInProgress, &idem.InProgressError{}, idem.ErrUnavailable,
		idem.ErrLeaseLost, &idem.RecordedError{Code: "c"}, idem.ErrMaxRun,
	} {
		key := fmt.Sprint(i)
		_, err := p.Execute(b.Context(), key, counted(new(int), "", failed))
		b.matches(err, failed)
		b.that(p.record(key).State == driver.Released, "%v: the key is released, not %v", failed, p.record(key).State)
	}
}
