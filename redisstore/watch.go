package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hints. Whoever waits subscribes to a channel with the name of the record's
// key, and marks the claim there as waited for; whoever settles a marked claim
// publishes. So a claim that nobody waits for publishes nothing: in a Cluster a
// message goes to every node.

// Watch implements [driver.Watcher]. The channel receives after each Complete,
// Release and Reset of key, after a connection was lost, and at once if no claim
// is there; hints that nobody has received yet coalesce. It is never closed. The
// end of a lease gives no hint.
//
// All watches of a Backend share one connection, which is opened for the first
// and closed with the last one. Watch returns once the server has confirmed: two
// round trips.
func (b *Backend) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, failure(ctx, context.Cause(ctx), false)
	}
	w, err := b.hub.join(ctx, b.RedisKey(key))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	reply, _, err := b.run(ctx, &b.scripts.watch, key, nil)
	if err != nil {
		go b.hub.leave(ctx, w)
		return nil, err
	}
	if reply != int64(1) {
		w.hint() // it is settled, or was never claimed
	}
	context.AfterFunc(ctx, func() { b.hub.leave(ctx, w) })
	return w.hints, nil
}

// hub passes messages on to those who watch in this process.
type hub struct {
	subscribe func(ctx context.Context) *redis.PubSub

	// mu guards all below, and is held while channels are subscribed to and left,
	// so that the server sees that in the order in which it happens here.
	mu     sync.Mutex
	pubsub *redis.PubSub // nil: nobody watches
	topics map[string]*topic
}

// topic is one channel of the server.
type topic struct {
	watchers  map[*watcher]struct{}
	confirmed bool
	ready     chan struct{} // closed once the server has confirmed, or refused
	err       error         // why it was refused; read after ready
}

// watcher is one call of Watch.
type watcher struct {
	name  string
	hints chan struct{}
	left  bool // it is to get no more hints; guarded by the hub's mutex
}

// hint tells the watcher. It waits for nobody.
func (w *watcher) hint() {
	select {
	case w.hints <- struct{}{}:
	default: // one is waiting to be received: that says it
	}
}

func newHub(subscribe func(ctx context.Context) *redis.PubSub) *hub {
	return &hub{subscribe: subscribe, topics: make(map[string]*topic)}
}

// join adds a watcher and waits until the server has confirmed that messages
// will come. The caller must let it leave. While the client opens a connection,
// which may outlast ctx, the hub is busy: nobody waits for it with ctx in hand.
func (h *hub) join(ctx context.Context, name string) (*watcher, error) {
	w := &watcher{name: name, hints: make(chan struct{}, 1)}
	joined := make(chan error, 1)
	go func() { joined <- h.confirm(ctx, w) }()
	var err error
	select {
	case err = <-joined:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		go h.leave(ctx, w)
		return nil, err
	}
	return w, nil
}

// confirm adds a watcher and waits for the server's confirmation.
func (h *hub) confirm(ctx context.Context, w *watcher) error {
	t, err := h.add(ctx, w)
	if err != nil {
		return err
	}
	select {
	case <-t.ready:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add adds a watcher, unless it has left already.
func (h *hub) add(ctx context.Context, w *watcher) (*topic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.left {
		return nil, context.Cause(ctx)
	}
	if h.pubsub == nil {
		h.pubsub = h.subscribe(ctx)
		go h.receive(context.WithoutCancel(ctx), h.pubsub)
	}
	t := h.topics[w.name]
	if t != nil {
		t.watchers[w] = struct{}{}
		return t, nil
	}
	t = &topic{watchers: map[*watcher]struct{}{w: {}}, ready: make(chan struct{})}
	h.topics[w.name] = t
	return t, h.pubsub.Subscribe(ctx, w.name)
}

// leave removes a watcher, once or more often. The last one closes the
// connection.
func (h *hub) leave(ctx context.Context, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.left = true
	t := h.topics[w.name]
	if t == nil {
		return
	}
	delete(t.watchers, w)
	if len(t.watchers) > 0 {
		return
	}
	delete(h.topics, w.name)
	if len(h.topics) > 0 {
		_ = h.pubsub.Unsubscribe(context.WithoutCancel(ctx), w.name) // else messages come that nobody gets
		return
	}
	_ = h.pubsub.Close() // ends receive
	h.pubsub = nil
}

// receive passes on what comes until the connection is closed for good. The
// client connects again, and subscribes again, by itself.
func (h *hub) receive(ctx context.Context, pubsub *redis.PubSub) {
	for failures := 0; ; {
		message, err := pubsub.Receive(ctx)
		switch m := message.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				h.subscribed(pubsub, m.Channel)
			}
		case *redis.Message:
			h.message(pubsub, m.Channel)
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if closed := errors.Is(err, redis.ErrClosed); !h.lost(pubsub, err, closed) || closed {
			return
		}
		timer := time.NewTimer(min(time.Second, 10*time.Millisecond<<min(failures, 10)))
		<-timer.C // not longer than a second beyond the last watch
	}
}

// subscribed notes that the server has confirmed. A second confirmation means
// that the connection was lost in between, and perhaps a message with it.
func (h *hub) subscribed(pubsub *redis.PubSub, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	switch {
	case h.pubsub != pubsub || t == nil:
	case t.confirmed:
		t.hint()
	default:
		t.confirmed = true
		close(t.ready)
	}
}

func (h *hub) message(pubsub *redis.PubSub, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[name]; h.pubsub == pubsub && t != nil {
		t.hint()
	}
}

// hint tells all who watch. It needs mu.
func (t *topic) hint() {
	for w := range t.watchers {
		w.hint()
	}
}

// lost hints everybody, because messages may have been missed. What the server
// refuses to confirm, or nobody can confirm any more, is refused. It reports
// whether the connection is still wanted.
func (h *hub) lost(pubsub *redis.PubSub, err error, closed bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pubsub != pubsub {
		return false
	}
	reply := asReply(err)
	for name, t := range h.topics {
		t.hint()
		if t.confirmed || reply == nil && !closed {
			continue
		}
		t.err = fmt.Errorf("the server does not let this client subscribe: %w", err)
		if reply != nil {
			t.err = fmt.Errorf("the server does not let this client subscribe: %w", reply)
		}
		close(t.ready)
		delete(h.topics, name)
	}
	if len(h.topics) == 0 || closed {
		_ = pubsub.Close()
		h.pubsub = nil
		clear(h.topics)
		return false
	}
	return true
}
