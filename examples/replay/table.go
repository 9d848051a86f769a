package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// maxColumns is how many passes are shown beside their sum.
const maxColumns = 3

// column is one column of the table.
type column struct {
	title string
	f     figures
	idem  bool // else what only idem counts is left empty
}

// columns chooses what stands side by side.
func (r *report) columns() []column {
	var cols []column
	if r.Without != nil {
		cols = append(cols, column{"without idem", *r.Without, false})
	}
	if len(r.Passes) > 1 && len(r.Passes) <= maxColumns {
		for i, p := range r.Passes {
			cols = append(cols, column{fmt.Sprintf("pass %d", i+1), p, true})
		}
	}
	return append(cols, column{"with idem", r.figures, true})
}

// row is one line of the table.
type row struct {
	name   string
	value  func(f *figures) string
	always bool // also without idem
}

func rows() []row {
	number := func(get func(f *figures) int64) func(f *figures) string {
		return func(f *figures) string { return grouped(get(f)) }
	}
	return []row{
		{"deliveries", number(func(f *figures) int64 { return f.Deliveries }), true},
		{"distinct operations", number(func(f *figures) int64 { return f.Operations }), true},
		{"effects", number(func(f *figures) int64 { return f.Effects }), true},
		{"replays", number(func(f *figures) int64 { return f.Replays }), false},
		{"waits", number(func(f *figures) int64 { return f.Waits }), false},
		{"takeovers", number(func(f *figures) int64 { return f.Takeovers }), false},
		{"resolved by the operator", number(func(f *figures) int64 { return f.Resolved }), false},
		{"rejected", number(func(f *figures) int64 { return f.Rejected }), true},
		{"  the key of another request", number(func(f *figures) int64 { return f.OtherBody }), false},
		{"  unreadable", number(func(f *figures) int64 { return f.Unreadable }), true},
		{"errors, delivered again", number(func(f *figures) int64 { return f.Errors }), true},
		{"restarts of a server", number(func(f *figures) int64 { return f.Restarts }), false},
		{"killed attempts", number(func(f *figures) int64 { return f.Killed }), true},
		{"DOUBLED EFFECTS", number(func(f *figures) int64 { return f.Doubled }), true},
		{"  charged too much", func(f *figures) string { return money(f.Overcharged) }, true},
		{"LOST OPERATIONS", number(func(f *figures) int64 { return f.Lost }), true},
		{"FORGOTTEN OUTCOMES", number(func(f *figures) int64 { return f.Forgotten }), false},
		{"deliveries per second", number(func(f *figures) int64 { return int64(f.Throughput) }), true},
		{"seconds", func(f *figures) string { return fmt.Sprintf("%.1f", f.Seconds) }, true},
	}
}

func money(minor int64) string { return fmt.Sprintf("%s.%02d", grouped(minor/100), minor%100) }

// table writes the result for people.
func (r *report) table(w io.Writer) error {
	cols := r.columns()
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-30s", "")
	for _, c := range cols {
		fmt.Fprintf(&b, "%15s", c.title)
	}
	b.WriteByte('\n')
	for _, row := range rows() {
		fmt.Fprintf(&b, "%-30s", row.name)
		for _, c := range cols {
			value := "-"
			if c.idem || row.always {
				value = row.value(&c.f)
			}
			fmt.Fprintf(&b, "%15s", value)
		}
		b.WriteByte('\n')
	}
	r.tierRows(&b, cols)
	fmt.Fprintf(&b, "\n%-30s%15s%15s%15s%15s\n", "store's overhead per call", "calls", "p50", "p99", "max")
	for _, q := range []struct {
		name string
		q    quantiles
	}{{"first executions", r.Overhead.First}, {"replays", r.Overhead.Replay}} {
		fmt.Fprintf(&b, "%-30s%15s%15s%15s%15s\n", q.name, grouped(q.q.Calls), short(q.q.P50), short(q.q.P99), short(q.q.Max))
	}
	if s := r.Slowest; s != nil {
		fmt.Fprintf(&b, "\nslowest delivery: %s of %s, %v after its first failure\n  %s\n", s.Delivery, s.Key, s.Took.Round(time.Millisecond), s.Story)
	}
	fmt.Fprintf(&b, "\nstore %s, policy %s, %d workers in %d processes, seed %d, peak memory %s MB\n%s\n",
		r.Store, r.Policy, r.Workers, r.Processes, r.Seed, grouped(r.PeakMemory>>20), r.conclusion())
	_, err := io.WriteString(w, b.String())
	return err
}

// tierRows writes what each tier saw, below the columns of the passes.
func (r *report) tierRows(b *strings.Builder, cols []column) {
	for i, t := range r.Tiers {
		fmt.Fprintf(b, "\ncalls that %s saw\n", t.Tier)
		for _, name := range callNames {
			if t.Calls[name] == 0 {
				continue
			}
			fmt.Fprintf(b, "  %-28s", words(name))
			for _, c := range cols {
				value := "-"
				if c.idem {
					value = grouped(c.f.Tiers[i].Calls[name])
				}
				fmt.Fprintf(b, "%15s", value)
			}
			b.WriteByte('\n')
		}
	}
}

// short rounds to what can be told apart at a glance.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// failed reports whether the run has shown a fault.
func (r *report) failed() bool { return r.Doubled > 0 || r.Lost > 0 || r.Forgotten > 0 || r.Wrong > 0 }

// conclusion is the run in one line.
func (r *report) conclusion() string {
	switch {
	case r.failed():
		var example string
		if len(r.Example) == 2 {
			example = fmt.Sprintf(" (the first by deliveries %d and %d)", r.Example[0], r.Example[1])
		}
		return fmt.Sprintf("FAILED: %s effects doubled%s, %s operations lost, %s outcomes forgotten, %s answers to another request",
			grouped(r.Doubled), example, grouped(r.Lost), grouped(r.Forgotten), grouped(r.Wrong))
	case r.Unsettled > 0:
		return fmt.Sprintf("INCOMPLETE: %s deliveries found no end", grouped(r.Unsettled))
	}
	return "OK: every operation had its effect once, or was refused for good"
}
