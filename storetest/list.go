package storetest

import (
	"fmt"
	"slices"

	"github.com/idem-go/idem/driver"
)

func listRules() []rule {
	return []rule{
		{name: "list/pages_show_each_record_once", text: cite(textList, textListPage, textListNext), needs: needLister, check: listPages},
		{name: "list/states_are_those_of_the_clock", text: cite(textListStates, i7), needs: needLister, check: listStates},
		{name: "list/prefix_is_taken_literally", text: textListPrefix, needs: needLister, check: listPrefix},
		{name: "list/records_are_as_inspected_without_value", text: textList, needs: needLister, check: listRecords},
		{name: "list/ended_records_are_absent", text: i13, needs: needLister, check: listEnded},
		{name: "list/changes_nothing", text: cite(textList, i13), needs: needLister, check: listChangesNothing},
	}
}

func (t *trial) lister(b driver.Backend) driver.Lister {
	l, ok := driver.As[driver.Lister](b)
	if !ok {
		t.Fatalf("Capabilities.Lister is declared, but driver.As finds no Lister")
	}
	return l
}

// all reads every page.
func (t *trial) all(l driver.Lister, p driver.ListParams) (records []driver.Record) {
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	for range 10_000 {
		page, err := l.List(t.ctx(), &p)
		if err != nil || page == nil {
			t.Fatalf("List: error %v", err)
		}
		if len(page.Records) > limit {
			t.Errorf("a page of %d records, the limit is %d", len(page.Records), limit)
		}
		records = append(records, page.Records...)
		if page.Next == "" {
			return records
		}
		if page.Next == p.After {
			t.Fatalf("List: the page after %q continues after the same", page.Next)
		}
		p.After = page.Next
	}
	t.Fatalf("List: no end after 10,000 pages")
	return nil
}

func keysOf(records []driver.Record) []string {
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

func (t *trial) wantKeys(records []driver.Record, want []string, of string) {
	got, wanted := keysOf(records), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("%s: %q, want %q", of, got, wanted)
	}
}

func listPages(t *trial) {
	b := t.open()
	l, prefix := t.lister(b), driver.JoinKey(t.space, "")
	t.wantKeys(t.all(l, driver.ListParams{Prefix: prefix}), nil, "an empty namespace")
	var want []string
	for i := range 105 {
		s := t.on(b, fmt.Sprintf("%d", i))
		s.acquire()
		want = append(want, s.key)
	}
	for _, limit := range []int{0, 1, 2, 7, 105, 1000} {
		t.wantKeys(t.all(l, driver.ListParams{Prefix: prefix, Limit: limit}), want, fmt.Sprintf("pages of %d", limit))
	}
}

func listStates(t *trial) {
	b := t.open()
	l, prefix := t.lister(b), driver.JoinKey(t.space, "")
	want := map[driver.State][]string{}
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		sit.make(s)
		if sit.state != 0 {
			want[sit.state] = append(want[sit.state], s.key)
		}
	}
	t.lapse()
	for state, keys := range want {
		t.wantKeys(t.all(l, driver.ListParams{Prefix: prefix, States: []driver.State{state}, Limit: 2}), keys, state.String())
	}
	both := slices.Concat(want[driver.Unknown], want[driver.Released])
	some := []driver.State{driver.Released, driver.Unknown}
	t.wantKeys(t.all(l, driver.ListParams{Prefix: prefix, States: some}), both, "released and unknown")
}

func listPrefix(t *trial) {
	b := t.open()
	l := t.lister(b)
	byPrefix := map[string][]string{}
	prefixes := []string{"a", "a%", "a_", "a*", "a?", "a[b]", "a\\", "a'", "aA", "a{t}", "aé", "ab"}
	for _, p := range prefixes {
		for _, suffix := range []string{"", "1", "2"} {
			s := t.on(b, p+suffix)
			s.acquire()
			byPrefix["a"] = append(byPrefix["a"], s.key)
			if p != "a" {
				byPrefix[p] = append(byPrefix[p], s.key)
			}
		}
	}
	for p, want := range byPrefix {
		t.wantKeys(t.all(l, driver.ListParams{Prefix: driver.JoinKey(t.space, p)}), want, fmt.Sprintf("prefix %q", p))
	}
}

func listRecords(t *trial) {
	b := t.open()
	l := t.lister(b)
	for _, sit := range situations() {
		sit.make(t.on(b, sit.name))
	}
	t.lapse()
	for _, rec := range t.all(l, driver.ListParams{Prefix: driver.JoinKey(t.space, ""), Limit: 3}) {
		inspected, err := b.Inspect(t.ctx(), rec.Key)
		if err != nil {
			t.Errorf("%q is listed, but Inspect says %v", rec.Key, err)
			continue
		}
		if len(rec.Outcome.Value) != 0 {
			t.Errorf("%q is listed with its value", rec.Key)
		}
		want := *inspected
		want.Outcome.Value = nil
		got := rec
		got.Outcome.Value = nil
		if d := different(&want, &got); len(d) > 0 {
			t.Errorf("%q as inspected, then as listed: %v", rec.Key, d)
		}
	}
}

func listEnded(t *trial) {
	b := t.open()
	l := t.lister(b)
	ended, stays := t.on(b, "ended"), t.on(b, "stays")
	ended.completeFor(ended.acquire(), success("done"), t.short())
	stays.completeFor(stays.acquire(), success("done"), kept)
	t.lapse()
	t.wantKeys(t.all(l, driver.ListParams{Prefix: driver.JoinKey(t.space, "")}), []string{stays.key}, "after a retention has ended")
}

func listChangesNothing(t *trial) {
	b := t.open()
	l := t.lister(b)
	before := map[*subject]picture{}
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		sit.make(s)
		before[s] = picture{}
	}
	t.lapse()
	for s := range before {
		before[s] = s.picture()
	}
	t.all(l, driver.ListParams{Prefix: driver.JoinKey(t.space, ""), Limit: 2})
	for s, was := range before {
		s.unchanged(was, "List")
	}
}
