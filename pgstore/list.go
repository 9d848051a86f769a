package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idem-go/idem/driver"
)

const (
	defaultPage = 100
	maxPage     = 10_000
)

// List implements [driver.Lister]. Pages are in the order of the keys' bytes, and
// hold at most 10,000 records. States that do not expire (claimed, unknown) are
// found by an index; others by reading on from After. Records that cannot be read
// are left out: the view counts them.
func (b *Backend) List(ctx context.Context, p *driver.ListParams) (*driver.ListResult, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if p.Limit < 0 {
		return nil, fmt.Errorf("pgstore: a page of %d records is not possible", p.Limit)
	}
	if !storableText(p.Prefix) || !storableText(p.After) {
		return nil, fmt.Errorf("pgstore: %w: the prefix, or where to go on, is not valid UTF-8 or contains a zero byte", driver.ErrInvalidKey)
	}
	limit := min(p.Limit, maxPage)
	if limit == 0 {
		limit = defaultPage
	}
	var rows []row
	_, err := again(func() (found bool, err error) {
		rows, err = b.list(ctx, p, limit+1)
		return len(rows) > 0, err
	})
	if err != nil {
		return nil, fail(ctx, err)
	}
	res := &driver.ListResult{}
	if len(rows) > limit {
		rows = rows[:limit]
		res.Next = rows[limit-1].key
	}
	for i := range rows {
		if rows[i].check() != nil {
			continue
		}
		rec := rows[i].record()
		rec.Outcome.Value = nil
		res.Records = append(res.Records, rec)
	}
	return res, nil
}

func (b *Backend) list(ctx context.Context, p *driver.ListParams, limit int) (out []row, err error) {
	// No key with the prefix is greater than it with many of the last character.
	last := p.Prefix + strings.Repeat("\U0010FFFF", maxKeyLen/4)
	found, err := b.db.Query(ctx, b.sql.list, p.Prefix, p.After, states(p.States), limit, endless(p.States), last)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r row
		if err := found.Scan(append(r.dest(), &r.key)...); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	found.Close()
	return out, found.Err()
}

// states as an argument; NULL for all.
func states(s []driver.State) any {
	if len(s) == 0 {
		return nil
	}
	out := make([]string, len(s))
	for i, x := range s {
		out[i] = strconv.Itoa(int(x))
	}
	return "{" + strings.Join(out, ",") + "}"
}

// endless reports whether only states are asked for that have no end of a
// retention, for which there is an index.
func endless(s []driver.State) bool {
	other := func(x driver.State) bool { return x != driver.Claimed && x != driver.Unknown }
	return len(s) > 0 && !slices.ContainsFunc(s, other)
}
