package main

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"time"
)

// message is a delivery on its way through the broker.
type message struct {
	delivery
	number int64 // in the stream, from 1
	try    int   // how often the broker has handed it out before

	trouble *trouble // nil: it has met none
}

// maxDelayed bounds the messages that wait for another try; while it is reached
// no new ones are read, so that memory does not depend on the stream's length.
const maxDelayed = 8192

// broker hands messages out until each has been settled: at least once, and
// again after a delay if its consumer says so or dies. It is the queue of the
// simulation, and knows nothing of idem.
type broker struct {
	out  chan *message
	back chan returned
	gone chan struct{} // closed when run has ended
}

// returned is a message that comes back from its consumer.
type returned struct {
	m   *message
	due time.Time // zero: settled
}

func newBroker() *broker {
	return &broker{out: make(chan *message), back: make(chan returned), gone: make(chan struct{})}
}

// settle acknowledges a message: it is not delivered again.
func (b *broker) settle(m *message) { b.give(returned{m: m}) }

// again has a message delivered again after a delay.
func (b *broker) again(m *message, after time.Duration) {
	m.try++
	b.give(returned{m: m, due: time.Now().Add(after)})
}

func (b *broker) give(r returned) {
	select {
	case b.back <- r:
	case <-b.gone:
	}
}

// feed puts messages into out, in order, until there are no more or ctx ends.
type feed func(ctx context.Context, out chan<- *message) error

// run delivers everything that the feed brings and closes b.out when all is
// settled, or when ctx ends.
func (b *broker) run(ctx context.Context, read feed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(b.gone)
	defer close(b.out)
	in := make(chan *message, 64)
	failed := make(chan error, 1)
	go func() {
		defer close(in)
		failed <- read(ctx, in)
	}()

	var d desk
	timer := time.NewTimer(0)
	defer timer.Stop()
	for in != nil || !d.empty() {
		next, wait := d.next()
		out, more := b.out, in
		if next == nil {
			out = nil // nothing to hand out now
			timer.Reset(wait)
		}
		if d.fresh != nil || len(d.delayed) >= maxDelayed {
			more = nil // nothing to read now
		}
		select {
		case out <- next:
			d.handedOut(next)
		case m, ok := <-more:
			if d.fresh = m; !ok {
				in = nil
			}
		case r := <-b.back:
			d.outstanding--
			if !r.due.IsZero() {
				heap.Push(&d.delayed, r)
			}
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return <-failed
}

// desk is what the broker has to do.
type desk struct {
	fresh       *message // read, and never handed out
	delayed     dueHeap  // came back
	outstanding int      // handed out, and not back
}

func (d *desk) empty() bool { return d.fresh == nil && len(d.delayed) == 0 && d.outstanding == 0 }

// next returns what to hand out now: a message whose delay is over, else the
// fresh one. If there is neither, it returns how long to wait for the former.
func (d *desk) next() (*message, time.Duration) {
	wait := time.Hour // something else will happen before
	if len(d.delayed) > 0 {
		if wait = time.Until(d.delayed[0].due); wait <= 0 {
			return d.delayed[0].m, 0
		}
	}
	return d.fresh, wait
}

// handedOut notes that what next returned is out.
func (d *desk) handedOut(m *message) {
	d.outstanding++
	if m == d.fresh {
		d.fresh = nil
	} else {
		heap.Pop(&d.delayed)
	}
}

// stream feeds what src has; note is told of each delivery before it is handed
// out.
func stream(src source, note func(*message)) feed {
	return func(ctx context.Context, out chan<- *message) error {
		for n := int64(1); ; n++ {
			d, err := src.next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			m := &message{delivery: d, number: n}
			note(m)
			select {
			case out <- m:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// resend feeds messages that were handed out before.
func resend(messages []*message) feed {
	return func(ctx context.Context, out chan<- *message) error {
		for _, m := range messages {
			m.try++
			select {
			case out <- m:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// dueHeap orders messages by the time of their next delivery.
type dueHeap []returned

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	if r, ok := x.(returned); ok { // it always is: only run pushes
		*h = append(*h, r)
	}
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = returned{}
	*h = old[:len(old)-1]
	return last
}
