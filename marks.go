package idem

import (
	"errors"
	"strings"
	"time"

	"github.com/idem-go/idem/backoff"
	"github.com/idem-go/idem/driver"
)

// maxMessage bounds the text of a recorded failure, in bytes.
const maxMessage = 4 << 10

// Permanent marks an error that an operation returns as its final outcome: the
// failure is recorded, and replayed to every later call. Nothing else makes
// [Store.Execute] record a failure. Permanent(nil) is nil. The mark survives
// wrapping, and errors.Is and errors.As see through it. It is the mark of the
// class backoff.Permanent.
//
// Permanent, [Unknown] and [NotApplied] speak of the operation that returns
// them. In an operation, the error of an Execute for another key has lost its
// mark: whoever returns that error on marks it anew if it means itself.
func Permanent(err error) error { return backoff.Mark(err, backoff.Permanent) }

// Unknown marks an error after which the effect may have happened: the key is
// held, whatever the policy, until a recovery or [Store.Resolve] tells.
// Unknown(nil) is nil. It is the mark of the class backoff.Ambiguous.
func Unknown(err error) error { return backoff.Mark(err, backoff.Ambiguous) }

// NotApplied marks an error after which the effect certainly did not happen:
// the key is released and may run again at once, under every policy.
// NotApplied(nil) is nil. It is the mark of the class backoff.Transient.
func NotApplied(err error) error { return backoff.Mark(err, backoff.Transient) }

// consumed is the error of a nested Execute, whose mark has had its effect. A
// mark speaks of the operation that returned it: the outer operation, which may
// return the error on, has another key, and another effect. Everything else
// about the error can still be matched, and a retry loop is told the class.
type consumed struct{ err error }

// consume returns err without effect of its marks on another key.
func consume(err error) error {
	if _, ok := backoff.Marked(err); !ok {
		return err
	}
	return consumed{err}
}

func (e consumed) Error() string        { return e.err.Error() }
func (e consumed) Is(target error) bool { return errors.Is(e.err, target) }
func (e consumed) As(target any) bool   { return errors.As(e.err, target) }

// RetryClass tells a loop of package backoff what the error means for the next
// call.
func (e consumed) RetryClass() backoff.Class { return backoff.Classify(e.err) }

// RetryAfterHint tells such a loop when to call again, if the error does.
func (e consumed) RetryAfterHint() time.Duration {
	d, _ := backoff.Hint(e.err)
	return d
}

// failure is the outcome to record for an error.
func failure(err error) driver.Outcome {
	code := "failed"
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		if c := clean(coded.Code()); c != "" {
			code = c
		}
	}
	return driver.Outcome{Failed: true, Code: code, Message: clean(err.Error())}
}

// clean makes text storable everywhere: valid UTF-8 without NUL, at most
// maxMessage bytes, cut between characters.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}
