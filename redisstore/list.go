package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
)

const (
	defaultPage = 100
	maxPage     = 10_000
	// scanCount is how many names the server looks at in one step of a scan.
	scanCount = 1000
)

// List implements [driver.Lister]. Pages are in the order of the keys, and hold
// at most 10,000 records. Records that cannot be read are left out: Inspect tells
// of them.
//
// Redis has no index: each page scans every name of every primary, in short
// steps that let other commands run between them. Ask for large pages, and not
// often. What changes while a page is made may be in it or not.
func (b *Backend) List(ctx context.Context, p *driver.ListParams) (*driver.ListResult, error) {
	if p.Limit < 0 {
		return nil, fmt.Errorf("redisstore: a page of %d records is not possible", p.Limit)
	}
	limit := min(p.Limit, maxPage)
	if limit == 0 {
		limit = defaultPage
	}
	pg := &page{b: b, p: p, room: limit + 1}
	if err := b.client.primaries(ctx, pg.scan); err != nil {
		return nil, failure(ctx, err, false)
	}
	res := &driver.ListResult{Records: pg.records}
	if len(pg.records) > limit {
		res.Records = pg.records[:limit]
		res.Next = res.Records[limit-1].Key
	}
	return res, nil
}

// page collects the records with the smallest keys that are asked for.
type page struct {
	b       *Backend
	p       *driver.ListParams
	room    int
	records []driver.Record // in order, without duplicates, at most room
}

// scan looks at every name of one server.
func (pg *page) scan(ctx context.Context, node redis.Cmdable) error {
	match := literal(pg.b.RedisKey(pg.p.Prefix)) + "*"
	for cursor := uint64(0); ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		names, next, err := node.Scan(ctx, cursor, match, scanCount).Result()
		if err != nil {
			return err
		}
		if err := pg.read(ctx, node, names); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// read adds those of the records that are asked for and have room.
func (pg *page) read(ctx context.Context, node redis.Cmdable, names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool {
		key, ok := pg.b.userKey(name)
		return !ok || key == "" || key <= pg.p.After || len(pg.records) == pg.room && key >= pg.records[pg.room-1].Key
	})
	replies, err := pg.b.peek(ctx, node, names)
	if err != nil {
		return err
	}
	for i, reply := range replies {
		key, _ := pg.b.userKey(names[i])
		if rec, ok := peeked(key, reply); ok && (len(pg.p.States) == 0 || slices.Contains(pg.p.States, rec.State)) {
			pg.add(rec)
		}
	}
	return nil
}

// peeked decodes a reply of peek.lua. It reports false without a record, or if
// that cannot be read.
func peeked(key string, reply any) (rec driver.Record, ok bool) {
	raw, _, now, err := answer(reply)
	var l layout
	if err != nil || l.split(raw, true) != nil {
		return rec, false
	}
	return rec, l.read(&rec, key, now) == nil
}

// add inserts a record in its place.
func (pg *page) add(rec driver.Record) {
	i, there := slices.BinarySearchFunc(pg.records, rec.Key, func(r driver.Record, key string) int { return strings.Compare(r.Key, key) })
	if there {
		return // a scan may show a name twice
	}
	pg.records = slices.Insert(pg.records, i, rec)
	pg.records = pg.records[:min(len(pg.records), pg.room)]
}

// peek runs peek.lua for many records of one server in one round trip. What
// cannot be peeked at has no reply: a name of another type, or one that another
// server of a Cluster has by now.
func (b *Backend) peek(ctx context.Context, node redis.Cmdable, names []string) ([]any, error) {
	if len(names) == 0 {
		return nil, nil
	}
	replies, err := b.pipeline(ctx, node, names, "evalsha", b.scripts.peek.sha)
	if reply := asAnswer(err); reply != nil && reply.code() == "NOSCRIPT" {
		replies, err = b.pipeline(ctx, node, names, "eval", b.scripts.peek.text)
	}
	return replies, err
}

// pipeline returns the replies, nil where the server answered with an error. An
// error is one that says nothing of a single record.
func (b *Backend) pipeline(ctx context.Context, node redis.Cmdable, names []string, command string, script any) ([]any, error) {
	pipe := node.Pipeline()
	cmds := make([]*redis.Cmd, len(names))
	for i, name := range names {
		cmds[i] = pipe.Do(ctx, command, script, 1, name)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	replies := make([]any, len(names))
	for i, cmd := range cmds {
		err := cmd.Err()
		switch reply := asAnswer(err); {
		case err == nil:
			replies[i] = cmd.Val()
		case reply == nil || !slices.Contains([]string{"WRONGTYPE", "MOVED", "ASK"}, reply.code()):
			return nil, err
		}
	}
	return replies, nil
}

// literal makes a pattern that matches s alone.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}
