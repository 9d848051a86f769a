package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// replay is one run of the program.
type replay struct {
	cfg       *config
	stdin     io.Reader
	progress  *progress
	opened    *opened
	namespace string
}

// run runs the sample without idem, then the deliveries with it.
func (r *replay) run(ctx context.Context) (*report, error) {
	// A namespace of its own: the provider of this run knows nothing of the
	// operations that an earlier one left in the store.
	r.namespace = "replay-" + rand.Text()
	out := &report{
		Store: r.cfg.store, Policy: r.cfg.policy, Workers: r.cfg.workers, Processes: r.cfg.processes,
		Seed: r.cfg.seed, Crash: float64(r.cfg.crash), Forgets: r.cfg.forgets, Restart: r.cfg.restart,
	}
	src, total, done, err := openSource(r.cfg, r.stdin)
	if err != nil {
		return nil, err
	}
	sample, err := take(src, r.cfg.sample)
	if err == nil && len(sample) > 0 {
		out.Without, err = r.without(ctx, sample)
	}
	if err == nil {
		err = r.with(ctx, &chain{&sliceSource{sample}, src}, total, out)
	}
	if err := errors.Join(err, done()); err != nil {
		return nil, err
	}
	out.PeakMemory = peakMemory()
	return out, nil
}

// without runs the sample without idem, with a provider and a judge of its own.
func (r *replay) without(ctx context.Context, sample []delivery) (*figures, error) {
	h := r.newHandler()
	p := &pass{cfg: r.cfg, judge: h.judge, tally: &tally{}, spent: &overheads{}, progress: r.progress}
	p.start = func(proc *process) (consumer, error) {
		return &without{handler: h, process: proc}, nil
	}
	stop := r.progress.follow("without idem", int64(len(sample)), p.tally.settled.Load)
	defer stop()
	err := p.run(ctx, &sliceSource{sample}, &h.provider.ledger, nil)
	f := p.figures()
	return &f, err
}

// with runs the passes with idem. first is the stream of the first of them.
func (r *replay) with(ctx context.Context, first source, total int, out *report) error {
	h := r.newHandler()
	store, err := r.newStore(r.opened.backend) // the operator's: it outlives the processes
	if err != nil {
		return err
	}
	var spent overheads
	for n := range r.cfg.passes {
		src, done := first, func() error { return nil }
		if n > 0 {
			if src, _, done, err = openSource(r.cfg, r.stdin); err != nil {
				return err
			}
			total = int(out.Passes[0].Deliveries)
		}
		p := &pass{cfg: r.cfg, judge: h.judge, tally: &tally{}, spent: &spent, progress: r.progress}
		p.start = r.guard(h, p.tally)
		p.halfway = r.restarter(p.tally, int64(total))
		before := snapshot(r.opened.tiers)
		f, err := r.follow(ctx, p, n, src, int64(total), &operator{store: store, provider: h.provider})
		f.Tiers = sum(snapshot(r.opened.tiers), before, -1)
		if err := errors.Join(err, done()); err != nil {
			return err
		}
		if err := r.complete(f, out.Passes); err != nil {
			return err
		}
		out.Passes = append(out.Passes, f)
		out.figures = out.plus(f)
	}
	out.Overhead = overhead{First: spent.first.quantiles(), Replay: spent.replay.quantiles()}
	return store.Close(ctx)
}

// complete says what a pass has left out, which its figures do not show.
func (r *replay) complete(f figures, before []figures) error {
	switch {
	case len(before) > 0 && f.Deliveries != before[0].Deliveries:
		return fmt.Errorf("pass %d read %d deliveries, the first one %d: -in must name a file that can be read again",
			len(before)+1, f.Deliveries, before[0].Deliveries)
	case r.cfg.restart != "" && f.Restarts == 0:
		return fmt.Errorf("the deliveries ended before %s was killed: -restart needs more of them", r.cfg.restart)
	}
	return nil
}

// follow runs pass n and shows how far it is.
func (r *replay) follow(ctx context.Context, p *pass, n int, src source, total int64, op *operator) (figures, error) {
	what := "with idem"
	if r.cfg.passes > 1 {
		what = fmt.Sprintf("with idem, pass %d", n+1)
	}
	stop := r.progress.follow(what, total, p.tally.settled.Load)
	defer stop()
	err := p.run(ctx, src, &op.provider.ledger, op)
	return p.figures(), err
}

// restarter returns what disturbs a pass in its middle; nil if nothing does.
func (r *replay) restarter(t *tally, total int64) *disturbance {
	if r.cfg.restart == "" {
		return nil
	}
	if total == 0 {
		total = 2000 // not known: early, if the stream is long
	}
	return &disturbance{at: max(1, total/2), do: func(ctx context.Context) error {
		begun := time.Now()
		if err := r.opened.restart(ctx, r.cfg.restart); err != nil {
			return err
		}
		t.restarts.Add(1)
		r.progress.say("killed %s after %s deliveries and started it again, in %v", r.cfg.restart, grouped(max(1, total/2)), time.Since(begun).Round(time.Millisecond))
		return nil
	}}
}

// guard starts processes that handle messages with idem: each makes a Store of
// its own, on a handle that is cut when the process dies.
func (r *replay) guard(h handler, t *tally) starter {
	policy := idem.Rerun
	if r.cfg.policy == "hold" {
		policy = idem.Hold
	}
	return func(p *process) (consumer, error) {
		store, err := r.newStore(&mortal{backend: r.opened.backend, dead: &p.dead})
		if err != nil {
			return nil, err
		}
		return &guarded{handler: h, process: p, store: store, policy: policy, wait: r.cfg.wait, tally: t}, nil
	}
}

func (r *replay) newHandler() handler {
	return handler{
		seed: r.cfg.seed, crash: float64(r.cfg.crash), judge: newJudge(),
		provider: newProvider(r.cfg.seed, r.cfg.latency, r.cfg.forgets),
	}
}

// newStore is what each process makes for itself.
func (r *replay) newStore(b driver.Backend) (*idem.Store, error) {
	observer := idem.Discard
	if r.cfg.wait > 0 {
		observer = noteWaits{}
	}
	s, err := idem.New(b, &idem.Options{Namespace: r.namespace, Lease: r.cfg.lease, Observer: observer})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return s, nil
}
