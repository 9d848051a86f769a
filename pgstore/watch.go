package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// flagWait bounds the wait for a transaction that holds the record to be
// flagged: it is an ExecuteTx, which no flag reaches.
const flagWait = 50 * time.Millisecond

// Watch implements [driver.Watcher]. It flags the record, and a Complete or
// Release of a flagged record sends a notification: nobody pays for one that
// nobody waits for. All watches share one connection: see Options.Listen. A hint
// is lost while that connection breaks, and through a transaction-pooling proxy;
// the end of a lease gives none.
func (b *Backend) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	hints := b.listener.add(ctx, b.payload(key))
	flagged, err := b.pool.affect(ctx, b.sql.flag, key, millis(flagWait))
	switch {
	case err != nil && sqlState(err) != stateLockTimeout:
		return nil, fail(ctx, err)
	case err == nil && !flagged:
		// It was flagged before, or has been settled just now: look once more.
		tell1(hints)
	}
	return hints, nil
}

// tell1 sends a hint unless one is waiting to be received, which says it.
func tell1(hints chan struct{}) {
	select {
	case hints <- struct{}{}:
	default:
	}
}

// listener hands the notifications of one connection to those who watch. It has
// a connection, and a goroutine, only while somebody does.
type listener struct {
	listen string // the statement
	open   func(ctx context.Context) (*pgx.Conn, error)

	mu       sync.Mutex // guards the fields below; never held while the server is asked
	watchers map[string]map[chan struct{}]struct{}
	ready    chan struct{} // closed once it listens, or cannot
	stop     context.CancelFunc
}

func newListener(listen string, open func(ctx context.Context) (*pgx.Conn, error)) *listener {
	return &listener{listen: listen, open: open, watchers: make(map[string]map[chan struct{}]struct{})}
}

// listen returns how to open the connection; nil if there is no way.
func (o *Options) listen(db DB) func(ctx context.Context) (*pgx.Conn, error) {
	if o.Listen != nil {
		return o.Listen
	}
	p, ok := db.(interface {
		Acquire(ctx context.Context) (*pgxpool.Conn, error)
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context) (*pgx.Conn, error) {
		c, err := p.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return c.Hijack(), nil // out of the pool: waiting must not use it up (C16)
	}
}

// add registers a watch until ctx ends and waits, for a moment, until the
// connection listens.
func (l *listener) add(ctx context.Context, payload string) chan struct{} {
	hints := make(chan struct{}, 1)
	l.mu.Lock()
	if l.watchers[payload] == nil {
		l.watchers[payload] = make(map[chan struct{}]struct{})
	}
	l.watchers[payload][hints] = struct{}{}
	if l.stop == nil && l.open != nil {
		var life context.Context
		life, l.stop = context.WithCancel(context.WithoutCancel(ctx))
		l.ready = make(chan struct{})
		go l.run(life, l.ready)
	}
	ready := l.ready
	l.mu.Unlock()
	context.AfterFunc(ctx, func() { l.remove(payload, hints) })
	if ready != nil {
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	return hints
}

func (l *listener) remove(payload string, hints chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watchers[payload], hints)
	if len(l.watchers[payload]) == 0 {
		delete(l.watchers, payload)
	}
	if len(l.watchers) == 0 && l.stop != nil {
		l.stop()
		l.stop, l.ready = nil, nil
	}
}

// run listens until life ends. A connection that breaks is opened again after a
// pause; those who watch look meanwhile, because a hint may have been lost.
func (l *listener) run(life context.Context, ready chan struct{}) {
	first := sync.OnceFunc(func() { close(ready) })
	defer first()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		if l.receive(life, first) {
			pause = 100 * time.Millisecond
		}
		first()
		l.tellAll()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
	}
}

// receive opens a connection and hands notifications on until it breaks. It
// reports whether it had listened.
func (l *listener) receive(life context.Context, listening func()) bool {
	opening, cancel := context.WithTimeout(life, 5*time.Second)
	defer cancel()
	conn, err := l.open(opening)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(life), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.PgConn().Exec(opening, l.listen).ReadAll(); err != nil {
		return false
	}
	listening()
	for {
		n, err := conn.WaitForNotification(life)
		if err != nil {
			return true
		}
		l.tell(n.Payload)
	}
}

func (l *listener) tell(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for hints := range l.watchers[payload] {
		tell1(hints)
	}
}

func (l *listener) tellAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, watchers := range l.watchers {
		for hints := range watchers {
			tell1(hints)
		}
	}
}
