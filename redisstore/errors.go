package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
)

// Errors name neither keys nor values nor credentials.

func errNotFound() error { return fmt.Errorf("redisstore: %w", driver.ErrNotFound) }

func errLeaseLost(why string) error {
	return fmt.Errorf("redisstore: %w: %s", driver.ErrLeaseLost, why)
}

func errConflict(why string) error { return fmt.Errorf("redisstore: %w: %s", driver.ErrConflict, why) }

// replyError is an error that the server answered with, cut to what can be
// shown: some servers quote a command that they do not know, with its arguments.
// It matches [redis.Error].
type replyError struct{ text string }

func (e *replyError) Error() string { return e.text }

// RedisError implements [redis.Error].
func (e *replyError) RedisError() {}

// asReply returns the server's answer in err, or nil.
func asReply(err error) *replyError {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return nil
	}
	text, _, _ := strings.Cut(reply.Error(), ", with args")
	return &replyError{strings.ToValidUTF8(text[:min(len(text), 200)], "")}
}

// code is the first word of the answer.
func (e *replyError) code() string {
	code, _, _ := strings.Cut(e.text, " ")
	return code
}

// passes reports whether the server may take the same command a moment later: a
// client of go-redis repeats it then.
func (e *replyError) passes() bool {
	switch e.code() {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK":
		return true
	}
	return strings.HasPrefix(e.text, "ERR max number of clients")
}

var errNoRedis = errors.New("the reply cannot be parsed: is this a Redis server, and is TLS set as the server has it?")

// failure says what became of a call that ended with err. refused: certainly
// nothing was changed, because everything that was sent was answered with an
// error, and no script raises one after it has written.
func failure(ctx context.Context, err error, refused bool) error {
	reply := asReply(err)
	cause := ended(ctx, err)
	switch {
	case reply != nil && reply.code() == "WRONGTYPE":
		return unreadable("it is no string")
	case reply != nil:
		err = reply
	case strings.Contains(err.Error(), "can't parse"):
		err = errNoRedis // the client quotes what it has read
	case cause != nil && !errors.Is(err, cause):
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if refused {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("redisstore: %w", err)
}

// ended returns what ended ctx, or nil. A deadline that the connection has seen
// may be a moment ahead of the context's own timer.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, ctx.Err()) {
			return cause
		}
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	var timeout net.Error
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) &&
		(errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()) {
		return context.DeadlineExceeded
	}
	return nil
}
