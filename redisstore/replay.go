package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
)

// replay answers a claim of a key that this process knows to be done, with the
// cheapest commands that can: GET and TIME in one round trip, without a script
// (ADR 0039). It reports false for whatever is not an outcome that can be read,
// and after every error: claim.lua has the say then. It changes nothing, so that a
// reply that was lost leaves nothing open (I8, I11).
func (b *Backend) replay(ctx context.Context, j *judgement) bool {
	if b.client.replicas || !b.done.Has(j.p.Key) {
		return false
	}
	raw, now, ok := b.plain(ctx, b.RedisKey(j.p.Key))
	if ok && j.judge(raw, now) == nil && j.res.Record.State.Completed() {
		return true // Completed, or Mismatch
	}
	b.done.Remove(j.p.Key)
	j.res = &driver.ClaimResult{}
	return false
}

// plain reads a record and the server's time from the primary of the record.
func (b *Backend) plain(ctx context.Context, name string) (raw string, now uint64, ok bool) {
	if ctx.Err() != nil {
		return "", 0, false
	}
	node, err := b.client.primaryOf(ctx, name)
	if err != nil {
		return "", 0, false
	}
	get, clock := redis.NewCmd(ctx, "get", name), redis.NewCmd(ctx, "time")
	pipe := node.Pipeline()
	_, _ = pipe.Process(ctx, once{get}), pipe.Process(ctx, once{clock}) // which only queue
	if _, err := pipe.Exec(ctx); err != nil {
		return "", 0, false
	}
	raw, found := get.Val().(string)
	at, err := clock.StringSlice()
	if err != nil || !found || len(at) != 2 {
		return "", 0, false
	}
	now, err = serverTime(at[0], strings.TrimSpace(at[1]))
	return raw, now, err == nil
}
