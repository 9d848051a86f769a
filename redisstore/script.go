package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/internal/draw"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// script is one script. Its texts are kept as the arguments they become.
type script struct {
	text any
	sha  any
}

// scripts are all of them, each in a file of its own.
type scripts struct {
	claim, inspect, peek, watch              script
	take, renew, annotate, complete, release script
	redact, reset                            script
}

func newScripts() *scripts {
	read, write := readScript("read"), readScript("write")
	stored := func(name string) script { return newScript(read + readScript(name) + write) }
	return &scripts{
		claim: newScript(readScript("claim")), inspect: newScript(readScript("inspect")),
		peek: newScript(readScript("peek")), watch: newScript(readScript("watch")),
		take: stored("take"), renew: stored("renew"), annotate: stored("annotate"), complete: stored("complete"),
		release: stored("release"), redact: stored("redact"), reset: stored("reset"),
	}
}

// readScript returns a script without its comments, which every server would
// have to store.
func readScript(name string) string {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("bug: " + err.Error()) // it is embedded
	}
	return uncommented(string(text))
}

func uncommented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") && strings.TrimSpace(line) != "" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// stamped is a script of a Cache with life.lua where it says so.
func stamped(name string) script {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("bug: " + err.Error()) // it is embedded
	}
	before, after, _ := strings.Cut(string(text), "-- life.lua\n")
	return newScript(uncommented(before) + readScript("life") + uncommented(after))
}

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// once is a command that the client does not repeat by itself: the client cannot
// tell a repetition after "try later" from one after a reply that was lost, and
// what became of a call depends on it (I8). run repeats it instead, as often as
// the client would have. Redirections within a Cluster are left to the client:
// they follow answers.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// payload is the first argument of every script. It notices when the client
// begins to send it: before that, nothing can have happened.
type payload struct {
	bytes []byte
	sent  atomic.Bool
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *payload) MarshalBinary() ([]byte, error) {
	p.sent.Store(true)
	return p.bytes, nil
}

// String keeps the bytes out of logs and traces.
func (p *payload) String() string { return fmt.Sprintf("<%d bytes>", len(p.bytes)) }

// run runs a script on the record of key. unsure: an earlier try of this call may have been applied
// too. After an error that matches no sentinel of package driver, the call may
// have been applied.
func (b *Backend) run(ctx context.Context, s *script, key string, first []byte, more ...any) (reply any, unsure bool, err error) {
	p := &payload{bytes: first}
	args := append(make([]any, 0, 5+len(more)), "evalsha", s.sha, 1, b.RedisKey(key), p)
	args = append(args, more...)
	for try := 1; ; try++ {
		p.sent.Store(false)
		reply, err = b.process(ctx, args)
		if answered := asAnswer(err); answered != nil && answered.code() == "NOSCRIPT" {
			// The server has restarted, or its scripts were flushed (C50). EVAL brings
			// the script back.
			args[0], args[1] = "eval", s.text
			reply, err = b.process(ctx, args)
		}
		if err == nil {
			return reply, unsure, nil
		}
		answered := asAnswer(err)
		unsure = unsure || answered == nil && p.sent.Load()
		if answered == nil && ctx.Err() == nil {
			b.client.unanswered(ctx)
		}
		if answered != nil && !answered.passes() || try >= b.client.tries || !b.client.pause(ctx, try) {
			return nil, unsure, failure(ctx, err, !unsure)
		}
	}
}

func asAnswer(err error) *replyError {
	if err == nil {
		return nil
	}
	return asReply(err)
}

func (b *Backend) process(ctx context.Context, args []any) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	cmd.SetStepCount(1) // a Cluster client would ask the server for it
	if err := b.client.rdb.Process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// pause waits before the next try, as the client's options say. It reports
// false as soon as ctx ends.
func (c *client) pause(ctx context.Context, try int) bool {
	ceiling := min(c.minBackoff<<min(try-1, 20), c.maxBackoff)
	if ceiling <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(ceiling/2 + time.Duration(draw.Int64N(ctx, int64(ceiling/2)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
