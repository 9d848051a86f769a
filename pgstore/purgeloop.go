package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/draw"
)

const (
	defaultPurgeInterval = time.Minute
	defaultPurgeRate     = 2000

	// firstPurgePause is the pause after a first failure; it doubles up to the
	// interval.
	firstPurgePause = time.Second
)

// PurgeLoopOptions configure [Backend.PurgeLoop]. Nil and the zero value are
// valid.
type PurgeLoopOptions struct {
	// Interval is the time between the end of one pass and the beginning of the
	// next, and between two tries to get the turn, give or take a tenth, drawn
	// anew each time. The default is 1 minute.
	Interval time.Duration

	// Rate is the most records removed a second. Make it more than are completed
	// in a second, on average over a day. The default is 2,000 (172 million a day).
	Rate int

	// Batch is the most records one step removes. The default is a tenth of a
	// second's at the Rate, and at most 10,000.
	Batch int

	// UnknownAfter as in [driver.PurgeParams]. The default removes no unknown
	// record.
	UnknownAfter time.Duration

	// Connect opens the connection that holds the turn, and over which the loop
	// removes. It must reach the server itself: behind a proxy that pools
	// transactions or sessions the loop refuses to begin. The connection is closed
	// when the turn ends. The default takes one out of the pool, if the client is
	// a *pgxpool.Pool, so that it does not count among its connections any more.
	Connect func(ctx context.Context) (*pgx.Conn, error)

	// Observe, if set, is told what the loop does, one call after the other, by
	// the goroutine that runs it. It should be quick. The default tells nobody.
	Observe func(e PurgeEvent)
}

// PurgeEvent is one thing that happened to a [Backend.PurgeLoop]: what metrics
// and logs are made of.
type PurgeEvent struct {
	Kind PurgeEventKind
	// Pass is how many records this pass has removed so far, Total this loop, in
	// all its turns.
	Pass, Total int64
	// Took is how long the pass has taken so far, its waits for the rate included.
	Took time.Duration
	// Behind is how long ago, by the server's clock, the first retention had ended
	// when the pass began; 0 if none had. It stays near the interval while the loop
	// keeps up, and grows while the rate is too low, or while records that cannot be
	// read are left where they are.
	Behind time.Duration
	// Err says why: of PurgeFailed and PurgeLost.
	Err error
}

// PurgeEventKind says what happened.
type PurgeEventKind uint8

const (
	// PurgeElsewhere: another loop has the turn.
	PurgeElsewhere PurgeEventKind = iota + 1
	// PurgeTurn: this loop has the turn from now on.
	PurgeTurn
	// PurgeStep: a step has removed records.
	PurgeStep
	// PurgePass: a pass has ended; nothing was left that it could remove.
	PurgePass
	// PurgeLost: a pass failed, or its connection did. The loop has given up its
	// turn and tries again after a pause; any other may take it.
	PurgeLost
	// PurgeFailed: the loop could not ask for the turn; it tries again after a
	// pause.
	PurgeFailed
)

// String returns the kind in words.
func (k PurgeEventKind) String() string {
	names := [...]string{"no event", "elsewhere", "turn", "step", "pass", "lost", "failed"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// ErrPooledConnection is the error of [Backend.PurgeLoop] behind a proxy that
// pools connections: there, a session is not the loop's own, and neither would
// be the turn.
var ErrPooledConnection = errors.New("the connection goes through a pooling proxy: give PurgeLoopOptions.Connect one to the server itself")

// PurgeLoop purges again and again until ctx ends. Run it in every process: one
// of them at a time purges, the others wait for its turn to end. The turn is an
// advisory lock of Postgres, named after the table, on a connection of the
// loop's own, over which it also removes: who has lost the connection can
// neither hold the turn nor remove anything, and another takes the turn within
// an interval. Two turns never overlap; if they did, nothing but time would be
// lost (see [Backend.Purge]).
//
// It returns nil once ctx has ended, with the turn given up. Any other return is
// an error that no waiting cures: an option that is not possible, no way to open
// a connection, [ErrPooledConnection]. What may pass (no server, no table, no
// right) is told to Observe and tried again.
func (b *Backend) PurgeLoop(ctx context.Context, o *PurgeLoopOptions) error {
	l, err := b.newPurgeLoop(o)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := l.turn(ctx)
		if errors.Is(err, ErrPooledConnection) {
			return err
		}
		if err != nil {
			l.wait(ctx, l.pause)
			l.pause = min(2*l.pause, l.o.Interval)
			continue
		}
		l.calm()
		l.wait(ctx, l.o.Interval)
	}
	return nil
}

// purgeLoop is a PurgeLoop. One goroutine uses it.
type purgeLoop struct {
	b     *Backend
	o     PurgeLoopOptions
	total int64
	pause time.Duration // after the next failure
}

// calm is for when nothing is wrong.
func (l *purgeLoop) calm() { l.pause = min(firstPurgePause, l.o.Interval) }

func (b *Backend) newPurgeLoop(given *PurgeLoopOptions) (*purgeLoop, error) {
	l := &purgeLoop{b: b}
	if given != nil {
		l.o = *given
	}
	if l.o.Interval < 0 {
		return nil, fmt.Errorf("pgstore: PurgeLoopOptions.Interval %v is negative", l.o.Interval)
	}
	if l.o.Interval == 0 {
		l.o.Interval = defaultPurgeInterval
	}
	if l.o.Rate == 0 {
		l.o.Rate = defaultPurgeRate
	}
	if l.o.Connect == nil {
		l.o.Connect = new(Options).listen(b.db) // out of the pool, as for LISTEN
	}
	if l.o.Connect == nil {
		return nil, errors.New("pgstore: PurgeLoop needs a connection of its own: set PurgeLoopOptions.Connect, or give New a *pgxpool.Pool")
	}
	if l.o.Observe == nil {
		l.o.Observe = func(PurgeEvent) {}
	}
	l.calm()
	_, err := b.newPurger(b.db, l.params(nil)) // checks the other numbers
	return l, err
}

func (l *purgeLoop) params(progress func(purged int64)) *driver.PurgeParams {
	return &driver.PurgeParams{Batch: l.o.Batch, Rate: l.o.Rate, UnknownAfter: l.o.UnknownAfter, Progress: progress}
}

// turn asks for the turn and, if it gets it, purges until ctx or the connection
// ends. It returns nil if there is nothing wrong, and tells the observer if there
// is.
func (l *purgeLoop) turn(ctx context.Context) error {
	t, err := l.takeTurn(ctx)
	if err == nil && t == nil {
		l.o.Observe(PurgeEvent{Kind: PurgeElsewhere, Total: l.total})
		return nil
	}
	if err != nil {
		if ctx.Err() == nil {
			l.o.Observe(PurgeEvent{Kind: PurgeFailed, Total: l.total, Err: err})
		}
		return err
	}
	defer t.giveUp(ctx)
	l.o.Observe(PurgeEvent{Kind: PurgeTurn, Total: l.total})
	for ctx.Err() == nil {
		if err := l.pass(ctx, t); err != nil {
			return err
		}
		l.calm()
		l.wait(ctx, l.o.Interval)
	}
	return nil
}

// pass purges once.
func (l *purgeLoop) pass(ctx context.Context, t *turn) error {
	began, before := time.Now(), l.total
	e := PurgeEvent{}
	tell := func(kind PurgeEventKind, purged int64, err error) {
		l.total = before + purged
		e.Kind, e.Pass, e.Total, e.Took, e.Err = kind, purged, l.total, time.Since(began), err
		l.o.Observe(e)
	}
	u, err := l.b.newPurger(t.conn, l.params(func(purged int64) { tell(PurgeStep, purged, nil) }))
	if err == nil {
		e.Behind, err = u.behind(ctx)
	}
	if err == nil {
		err = u.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		tell(PurgeLost, u.res.Purged, err)
		return err
	}
	if ctx.Err() == nil {
		tell(PurgePass, u.res.Purged, nil)
	}
	return nil
}

// wait waits for about d, or until ctx ends.
func (l *purgeLoop) wait(ctx context.Context, d time.Duration) {
	tenth := int64(d / 10)
	timer := time.NewTimer(d - time.Duration(tenth) + time.Duration(draw.Int64N(ctx, 2*tenth+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
