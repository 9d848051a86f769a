package main

import "time"

// figures are what one run, or one pass of it, came to. The JSON names stay.
type figures struct {
	Deliveries  int64   `json:"deliveries"`
	Operations  int64   `json:"operations"` // distinct keys
	Effects     int64   `json:"effects"`    // charges on the provider's ledger
	Replays     int64   `json:"replays"`
	Waits       int64   `json:"waits"`
	Takeovers   int64   `json:"takeovers"`
	Rejected    int64   `json:"rejected"`
	OtherBody   int64   `json:"rejected_other_body"`
	Unreadable  int64   `json:"rejected_unreadable"`
	Errors      int64   `json:"errors"`
	Killed      int64   `json:"killed"`
	Held        int64   `json:"held"`
	Resolved    int64   `json:"resolved"`
	Doubled     int64   `json:"doubled"`
	Example     []int64 `json:"doubled_example,omitempty"` // numbers of the deliveries that doubled the first one
	Lost        int64   `json:"lost"`
	Forgotten   int64   `json:"forgotten"` // outcomes that were reported, and not found later
	Wrong       int64   `json:"wrong_replays"`
	Unsettled   int64   `json:"unsettled"`
	Overcharged int64   `json:"overcharged"` // in minor units
	Seconds     float64 `json:"seconds"`
	Throughput  float64 `json:"throughput"` // deliveries per second
	Restarts    int64   `json:"restarts"`   // of a server
	// Slowest is the delivery that took the longest after its first failure.
	Slowest *slowDelivery `json:"slowest,omitempty"`
	// Tiers are the calls that each tier saw.
	Tiers []tierCalls `json:"tiers,omitempty"`
}

// figures reads a pass that has ended.
func (p *pass) figures() figures {
	t := p.tally
	f := figures{
		Deliveries:  t.deliveries.Load(),
		Operations:  p.after.operations,
		Effects:     p.after.effects - p.before.effects,
		Replays:     t.replayed.Load(),
		Waits:       t.waits.Load(),
		Takeovers:   t.takeovers.Load(),
		OtherBody:   t.otherBody.Load(),
		Unreadable:  t.unreadable.Load(),
		Errors:      t.errors.Load(),
		Killed:      t.killed.Load(),
		Held:        t.held.Load(),
		Resolved:    t.resolved.Load(),
		Doubled:     p.after.doubled - p.before.doubled,
		Example:     p.after.example,
		Lost:        p.after.lost,
		Forgotten:   p.after.forgotten - p.before.forgotten,
		Wrong:       t.wrong.Load(),
		Unsettled:   t.deliveries.Load() - t.settled.Load(),
		Overcharged: p.after.overcharged - p.before.overcharged,
		Seconds:     p.took.Seconds(),
		Throughput:  perSecond(t.deliveries.Load(), p.took),
		Restarts:    t.restarts.Load(),
	}
	if p.slow.d.Took > 0 {
		f.Slowest = &p.slow.d
	}
	f.Rejected = f.OtherBody + f.Unreadable
	return f
}

// plus adds the figures of a later pass.
func (f figures) plus(g figures) figures {
	return figures{
		Deliveries:  f.Deliveries + g.Deliveries,
		Operations:  g.Operations, // counted over all passes
		Effects:     f.Effects + g.Effects,
		Replays:     f.Replays + g.Replays,
		Waits:       f.Waits + g.Waits,
		Takeovers:   f.Takeovers + g.Takeovers,
		Rejected:    f.Rejected + g.Rejected,
		OtherBody:   f.OtherBody + g.OtherBody,
		Unreadable:  f.Unreadable + g.Unreadable,
		Errors:      f.Errors + g.Errors,
		Killed:      f.Killed + g.Killed,
		Held:        f.Held + g.Held,
		Resolved:    f.Resolved + g.Resolved,
		Doubled:     f.Doubled + g.Doubled,
		Example:     g.Example, // of all passes so far
		Lost:        g.Lost,    // judged over all passes
		Forgotten:   f.Forgotten + g.Forgotten,
		Wrong:       f.Wrong + g.Wrong,
		Unsettled:   f.Unsettled + g.Unsettled,
		Overcharged: f.Overcharged + g.Overcharged,
		Seconds:     f.Seconds + g.Seconds,
		Throughput:  perSecond(f.Deliveries+g.Deliveries, seconds(f.Seconds+g.Seconds)),
		Restarts:    f.Restarts + g.Restarts,
		Slowest:     slower(f.Slowest, g.Slowest),
		Tiers:       sum(f.Tiers, g.Tiers, 1),
	}
}

func slower(a, b *slowDelivery) *slowDelivery {
	if a == nil || b != nil && b.Took > a.Took {
		return b
	}
	return a
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// quantiles of the store's overhead per call, in nanoseconds: the time of a call
// less the time inside the operation. Calls that waited for another attempt are
// not among them.
type quantiles struct {
	Calls int64         `json:"calls"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

func (h *histogram) quantiles() quantiles {
	return quantiles{Calls: h.n.Load(), P50: h.quantile(0.50), P99: h.quantile(0.99), Max: h.max()}
}

// overhead is what the store adds to a call.
type overhead struct {
	First  quantiles `json:"first"`
	Replay quantiles `json:"replay"`
}

// report is the whole result.
type report struct {
	Store     string  `json:"store"`
	Policy    string  `json:"policy"`
	Workers   int     `json:"workers"`
	Processes int     `json:"processes"`
	Seed      uint64  `json:"seed"`
	Crash     float64 `json:"crash"`
	Forgets   bool    `json:"provider_forgets"`
	Restart   string  `json:"restart,omitempty"`
	figures
	Overhead   overhead  `json:"overhead"`
	PeakMemory int64     `json:"peak_rss_bytes"`
	Passes     []figures `json:"passes"`
	Without    *figures  `json:"without,omitempty"`
}
