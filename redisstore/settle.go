package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// What scripts answer that change a record, or do not: see scripts/read.lua.
const (
	answerOtherRevision = 2
	answerDone          = 1
	answerSaidAgain     = 0
	answerNoRecord      = -1
	answerOtherOwner    = -2
	answerOtherToken    = -3
	answerSettled       = -4
	answerUnreadable    = -5
)

// outcome of a script that acts for a claim.
func claimAnswer(reply any) error {
	switch reply {
	case int64(answerDone), int64(answerSaidAgain):
		return nil
	case int64(answerNoRecord):
		return errLeaseLost("there is no record")
	case int64(answerOtherOwner):
		return errLeaseLost("another owner holds it, or nobody")
	case int64(answerOtherToken):
		return errLeaseLost("the owner holds another token")
	case int64(answerSettled):
		return errLeaseLost("the claim was settled")
	case int64(answerUnreadable):
		return unreadable("its parts are not what its head says")
	}
	return errReply(reply)
}

// act runs a script that acts for a claim (I3), in one round trip, and waits for
// the replicas.
func (b *Backend) act(ctx context.Context, s *script, ref driver.Ref, params []byte, more ...any) error {
	first := make([]byte, 0, 24+len(params))
	first = append(first, ref.Owner[:]...)
	first = binary.BigEndian.AppendUint64(first, ref.Token)
	reply, _, err := b.run(ctx, s, ref.Key, append(first, params...), more...)
	if err != nil {
		return err
	}
	if err := claimAnswer(reply); err != nil {
		return err
	}
	return b.replicated(ctx, ref.Key)
}

// Renew implements [driver.Backend].
func (b *Backend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	if err := errors.Join(checkLease(p.Lease), checkRetention(p.Retention)); err != nil {
		return err
	}
	return b.act(ctx, &b.scripts.renew, ref, appendLease(nil, p.Lease, p.Retention))
}

// Annotate implements [driver.Backend].
func (b *Backend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	nothing := byte(0)
	if p.NotExecuted {
		nothing = 1
	}
	more := []any{encodeAudit(p.Audit)}
	for _, r := range p.Refs {
		entry, err := appendReference(nil, r)
		if err != nil {
			return err
		}
		more = append(more, entry)
	}
	return b.act(ctx, &b.scripts.annotate, ref, []byte{nothing}, more...)
}

// Complete implements [driver.Backend].
func (b *Backend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	if err := checkRetention(p.Retention); err != nil {
		return err
	}
	phase := phaseSucceeded
	if p.Outcome.Failed {
		phase = phaseFailed
	}
	// The value is sent from the caller's own bytes: the client is done with them
	// when it returns.
	params := make([]byte, 0, 9+detailsLen(&p.Outcome))
	params = appendDuration(append(params, phase), p.Retention)
	params = appendDetails(params, &p.Outcome, 1, "")
	more := []any{p.Outcome.Value}
	if p.Audit != nil {
		more = append(more, encodeAudit(p.Audit))
	}
	err := b.act(ctx, &b.scripts.complete, ref, params, more...)
	if err == nil {
		b.done.Add(ref.Key)
	}
	return err
}

// How a claim is given up: see scripts/release.lua.
const (
	howAsItIs byte = iota
	howInDoubt
	howHeld
	howNotExecuted
)

// Release implements [driver.Backend].
func (b *Backend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	if err := checkRetention(p.Retention); err != nil {
		return err
	}
	how := howAsItIs
	switch {
	case p.NotExecuted && (p.Held || p.Doubt):
		return errors.New("redisstore: NotExecuted contradicts Held and Doubt")
	case p.NotExecuted:
		how = howNotExecuted
	case p.Held:
		how = howHeld
	case p.Doubt:
		how = howInDoubt
	}
	params := appendDuration([]byte{how}, p.Retention)
	params = appendDuration(params, max(p.Retention, keepUnknown))
	return b.act(ctx, &b.scripts.release, ref, params, encodeAudit(p.Audit))
}

// replicated waits until MinReplicas replicas have what the primary of the key
// had when it was asked; that is at least what this call has changed.
func (b *Backend) replicated(ctx context.Context, key string) error {
	if b.opts.MinReplicas == 0 {
		return nil
	}
	node, err := b.client.primaryOf(ctx, b.RedisKey(key))
	if err != nil {
		return failure(ctx, err, false)
	}
	wait := b.opts.ReplicaTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	// WAIT waits for what the server had when the connection's last command ran:
	// any command, before it on the same connection.
	pipe := node.Pipeline()
	pipe.Ping(ctx)
	got := pipe.Do(ctx, "wait", b.opts.MinReplicas, max(1, wait.Milliseconds()))
	if _, err := pipe.Exec(ctx); err != nil {
		return failure(ctx, err, false)
	}
	if n, err := got.Int(); err != nil || n < b.opts.MinReplicas {
		return fmt.Errorf("redisstore: the primary has it, but %d of the %d replicas that Options.MinReplicas asks for have it after %v", n, b.opts.MinReplicas, wait)
	}
	return nil
}
