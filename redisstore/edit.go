package redisstore

import (
	"context"
	"encoding/binary"

	"github.com/idem-go/idem/driver"
)

// editAnswer is the outcome of a script that edits a record for an operator.
func editAnswer(reply any) error {
	switch reply {
	case int64(answerDone):
		return nil
	case int64(answerNoRecord):
		return errNotFound()
	case int64(answerOtherToken):
		return errConflict("it has another token than expected")
	case int64(answerSettled):
		return errConflict("it is not in a state that can be edited so")
	case int64(answerUnreadable):
		return unreadable("its parts are not what its head says")
	}
	return errReply(reply)
}

// Redact implements [driver.Editor]. The codec's id, the providers and the
// fingerprint stay. It reads what is there, and then changes exactly that.
func (b *Backend) Redact(ctx context.Context, key string, p *driver.EditParams) error {
	for {
		l, now, err := b.inspect(ctx, key)
		if err != nil {
			return err
		}
		var rec driver.Record
		err = l.read(&rec, key, now)
		switch {
		case err != nil:
			return err
		case rec.Token != p.Token:
			return errConflict("it has another token than expected")
		case !rec.State.Completed():
			return errConflict("no outcome is recorded")
		case rec.Outcome.Body == driver.BodyRedacted:
			return b.replicated(ctx, key)
		}
		o := rec.Outcome
		o.Body, o.Message = driver.BodyRedacted, ""
		revision := uint32(rec.Revision) //nolint:gosec // it was read from four bytes
		first := binary.BigEndian.AppendUint64(nil, p.Token)
		first = binary.BigEndian.AppendUint32(first, revision)
		reply, _, err := b.run(ctx, &b.scripts.redact, key, first, encodeAudit(&p.Audit), appendDetails(nil, &o, revision+1, rec.SealKeyID))
		if err != nil {
			return err
		}
		if reply == int64(answerOtherRevision) {
			continue // another edit came in between
		}
		if err := editAnswer(reply); err != nil {
			return err
		}
		return b.replicated(ctx, key)
	}
}

// Reset implements [driver.Editor]. The fingerprint, the references and the
// providers stay: a reset says that the key may run again, not that nothing
// happened.
func (b *Backend) Reset(ctx context.Context, key string, p *driver.EditParams) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := checkRetention(p.Retention); err != nil {
		return err
	}
	first := appendDuration(binary.BigEndian.AppendUint64(nil, p.Token), p.Retention)
	reply, unsure, err := b.run(ctx, &b.scripts.reset, key, first, encodeAudit(&p.Audit))
	if err != nil {
		return err
	}
	if unsure && reply == int64(answerOtherToken) && b.wasReset(ctx, key, p) {
		reply = int64(answerDone) // the reply to an earlier try was lost
	}
	if err := editAnswer(reply); err != nil {
		return err
	}
	return b.replicated(ctx, key)
}

// wasReset reports whether the record is what a reset with p leaves.
func (b *Backend) wasReset(ctx context.Context, key string, p *driver.EditParams) bool {
	rec, err := b.Inspect(ctx, key)
	return err == nil && rec.State == driver.Released && rec.Owner == driver.Owner{} && rec.Token > p.Token &&
		rec.Audit.By == p.Audit.By && rec.Audit.Why == p.Audit.Why
}
