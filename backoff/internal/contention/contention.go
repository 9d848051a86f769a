// Package contention is the model with which AWS compared kinds of jitter
// (Architecture Blog, "Exponential Backoff And Jitter", 2015; aws-samples/
// aws-arch-backoff-simulator), driven by the delays of package backoff.
//
// All clients start at once, and each must commit once to one row with a
// version. A client reads the version, then writes; the write succeeds if the
// version is still the same, else the client waits and reads again. Each of the
// four hops of a try takes |Normal(10, 2)| ms.
package contention

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/idem-go/idem/backoff"
)

// Strategy is a way to wait after a failed write.
type Strategy struct {
	Name   string
	Policy *backoff.Policy
}

// Strategies returns the five that are compared, with a base of 5 ms and a cap
// of 2 s.
func Strategies() []Strategy {
	with := func(j backoff.Jitter) *backoff.Policy {
		return &backoff.Policy{Base: 5 * time.Millisecond, Cap: 2 * time.Second, Jitter: j}
	}
	return []Strategy{
		{"none", &backoff.Policy{Base: backoff.NoDelay}},
		{"exponential", with(backoff.None)},
		{"equal", with(backoff.Equal)},
		{"full", with(backoff.Full)},
		{"decorrelated", with(backoff.Decorrelated)},
	}
}

// Cost is what it takes until every client has committed.
type Cost struct {
	Millis float64 // until the last reply
	Calls  float64 // writes that reached the server; reads are not counted
}

// Average is the mean cost of some repetitions.
func Average(s Strategy, clients, repetitions int, rng *rand.Rand) Cost {
	var sum Cost
	for range repetitions {
		c := run(s.Policy, clients, rng)
		sum.Millis += c.Millis
		sum.Calls += c.Calls
	}
	n := float64(repetitions)
	return Cost{Millis: sum.Millis / n, Calls: sum.Calls / n}
}

// request is one that reaches the server at a time, in milliseconds.
type request struct {
	at      float64
	seq     int // the order in which requests were made; breaks ties
	client  *client
	write   bool
	version int // that the client read
}

type client struct {
	failures int
	prev     time.Duration
}

// requests is a binary heap, the earliest first. container/heap would allocate
// for each request, and a table is tens of millions of them.
type requests []request

func (r request) before(o request) bool { return r.at < o.at || r.at == o.at && r.seq < o.seq }

func (r *requests) push(q request) {
	h := append(*r, q)
	for i := len(h) - 1; i > 0 && h[i].before(h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	*r = h
}

func (r *requests) pop() request {
	h := *r
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < last && h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*r = h
	return first
}

// run is one repetition.
func run(p *backoff.Policy, clients int, rng *rand.Rand) (c Cost) {
	var queue requests
	version, seq := 0, 0
	hop := func() float64 { return math.Abs(10 + 2*rng.NormFloat64()) }
	send := func(q request) {
		seq++
		q.at, q.seq = q.at+hop(), seq
		queue.push(q)
	}
	for range clients {
		send(request{client: &client{}})
	}
	for len(queue) > 0 {
		q := queue.pop()
		reply := q.at + hop()
		switch {
		case !q.write:
			send(request{at: reply, client: q.client, write: true, version: version})
			continue
		case q.version == version:
			version++
		default:
			q.client.failures++
			// The model counts the failure before it computes the ceiling, so that the
			// first one is twice the base.
			q.client.prev = p.Delay(q.client.failures+1, q.client.prev, rng.Uint64())
			send(request{at: reply + float64(q.client.prev)/1e6, client: q.client})
		}
		c.Calls++
		c.Millis = max(c.Millis, reply)
	}
	return c
}
