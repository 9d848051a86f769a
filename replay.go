package idem

import (
	"fmt"
	"strings"

	"github.com/idem-go/idem/driver"
)

// replay turns a recorded outcome into what the call returns. It is always a
// replay; err tells of a recorded failure, or of a value that was not kept.
func (s *Store) replay(q *call, rec *driver.Record) (replay bool, err error) {
	out := &rec.Outcome
	if !rec.State.Completed() || out.Failed != (rec.State == driver.Failed) || rec.Format > driver.FormatVersion {
		return false, q.error(ErrCorrupt, "it is said to be completed, and does not look so", nil)
	}
	if rec.SealKeyID != "" && out.Body == driver.BodyKept { // a later release's: its bytes are not the value (I12)
		return false, q.error(ErrCorrupt, fmt.Sprintf("its outcome is sealed with the key %q, and this release has none", rec.SealKeyID), nil)
	}
	q.codec = out.Codec
	q.result = Result{Value: out.Value, Replayed: true, Recovered: out.Recovered, Token: rec.Token, RecordedAt: rec.RecordedAt}
	if out.Failed {
		return true, s.recordedError(rec, q.error)
	}
	var reason error
	switch out.Body {
	case driver.BodyKept:
		return true, nil
	case driver.BodyNotEncoded:
		reason = ErrNotEncoded
	case driver.BodyTooLarge:
		reason = ErrTooLarge
	case driver.BodyRedacted:
		reason = ErrRedacted
	default:
		return false, q.error(ErrCorrupt, fmt.Sprintf("its body is of the unknown kind %d", out.Body), nil)
	}
	e := q.error(reason, "it was recorded without its value", nil)
	e.Effect = EffectEarlier
	return true, e
}

// recordedError is the replay of a failure.
func (s *Store) recordedError(rec *driver.Record, about func(reason error, detail string, cause error) *Error) *RecordedError {
	out := &rec.Outcome
	detail := out.Code
	if out.Message != "" {
		detail += ": " + strings.TrimSpace(out.Message)
	}
	e := about(ErrRecordedFailure, detail, nil)
	return &RecordedError{Code: out.Code, Message: out.Message, RecordedAt: rec.RecordedAt, detail: e, revived: s.opts.Errors[out.Code]}
}
