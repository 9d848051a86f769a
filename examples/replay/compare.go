package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// comparison are the results over every store, one after the other, with the
// same deliveries.
type comparison struct {
	Deliveries int64     `json:"deliveries"`
	Doubled    int64     `json:"doubled"`
	Lost       int64     `json:"lost"`
	Stores     []*report `json:"stores"`
}

// compare runs over every store and returns the exit status.
func compare(ctx context.Context, cfg *config, stdin io.Reader, stdout io.Writer, shown *progress) (int, error) {
	out := &comparison{}
	status := 0
	for _, name := range stores {
		one := *cfg
		one.store, one.sample = name, 0
		shown.say("store %s", name)
		o, err := openStore(ctx, &one, shown.say)
		if err != nil {
			return 2, err
		}
		r, err := execute(ctx, &one, o, stdin, shown)
		if err := errors.Join(err, o.close(context.WithoutCancel(ctx))); err != nil {
			return 2, err
		}
		if err := out.add(r); err != nil {
			return 2, err
		}
		if s := r.status(); s == 1 || status == 0 {
			status = s
		}
	}
	if cfg.json {
		return status, writeJSON(stdout, out)
	}
	return status, out.table(stdout)
}

func (c *comparison) add(r *report) error {
	if len(c.Stores) > 0 && r.Deliveries != c.Stores[0].Deliveries {
		return fmt.Errorf("store %s read %d deliveries, the first one %d: -in must name a file that can be read again",
			r.Store, r.Deliveries, c.Stores[0].Deliveries)
	}
	c.Deliveries += r.Deliveries
	c.Doubled += r.Doubled
	c.Lost += r.Lost
	c.Stores = append(c.Stores, r)
	return nil
}

// table writes the comparison for people.
func (c *comparison) table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-10s%33s%33s%14s\n", "store's", "first executions", "replays", "deliveries")
	fmt.Fprintf(&b, "%-10s%11s%11s%11s%11s%11s%11s%14s\n", "overhead", "p50", "p99", "max", "p50", "p99", "max", "per second")
	for _, r := range c.Stores {
		fmt.Fprintf(&b, "%-10s", r.Store)
		for _, q := range []quantiles{r.Overhead.First, r.Overhead.Replay} {
			fmt.Fprintf(&b, "%11s%11s%11s", short(q.P50), short(q.P99), short(q.Max))
		}
		fmt.Fprintf(&b, "%14s\n", grouped(int64(r.Throughput)))
	}
	b.WriteByte('\n')
	for _, r := range c.Stores {
		fmt.Fprintf(&b, "%-10s%s\n", r.Store, r.conclusion())
	}
	if len(c.Stores) > 0 {
		r := c.Stores[0]
		fmt.Fprintf(&b, "\n%s deliveries each, %d workers in %d processes, seed %d\n", grouped(r.Deliveries), r.Workers, r.Processes, r.Seed)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
