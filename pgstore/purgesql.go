package pgstore

import "strings"

// purgeTexts are the statements of a purge.
type purgeTexts struct {
	slice  string
	pick   string
	page   string
	behind string // how long ago, in microseconds, the first retention ended
}

// purgeSettings are those of a purge's transactions: $1 bounds each wait for
// another transaction. The planner is left no choice but the indexes: what it
// knows of a table of which a third ends in a night is soon wrong, and one
// sequential scan a step is what makes a purge quadratic.
const purgeSettings = "SELECT pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true)," +
	" pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true)," +
	" pg_catalog.set_config('enable_sort', 'off', true), pg_catalog.set_config('jit', 'off', true)"

// purgeIntact holds for a record that this release can read: what cannot be read is
// not removed either (I12).
const purgeIntact = "t.format = 1 AND pg_catalog.octet_length(t.owner) = 16 AND (t.fingerprint IS NULL OR pg_catalog.octet_length(t.fingerprint) = 32)" +
	" AND pg_catalog.jsonb_typeof(t.providers) = 'array' AND pg_catalog.jsonb_typeof(t.refs) = 'array'"

// purgeEnds holds for a readable record that has an end, whenever that is: released,
// or completed, with what that needs.
const purgeEnds = purgeIntact + " AND (t.state = 2 AND NOT t.held OR t.state = 3 AND t.recorded_at IS NOT NULL" +
	" AND CASE WHEN t.failed THEN t.code IS NOT NULL AND t.message IS NOT NULL ELSE t.body > 0 OR t.outcome IS NOT NULL END)"

// newPurgeTexts writes the statements. Each DELETE names in its own WHERE all
// that allows it: a record that another transaction changes between being found
// and being removed is judged again, as it is then (I11, C23).
func newPurgeTexts(n *names) purgeTexts {
	// One reading of the clock for a whole statement; nothing of it depends on a row.
	read := "WITH clock AS MATERIALIZED (SELECT " + clock + " AS now), "
	over := "t.expires_at >= $1::timestamptz AND t.expires_at <= (SELECT now FROM clock)"
	s := purgeTexts{}

	// $1 the instant from which on, $2 batch. Answers the edge, which is the
	// instant of the record after the batch, NULL if there is none, and how many
	// were removed.
	s.slice = read + "edge AS MATERIALIZED (SELECT t.expires_at FROM " + n.table + " t WHERE " + over +
		" ORDER BY t.expires_at OFFSET $2::bigint LIMIT 1)," +
		" gone AS (DELETE FROM " + n.table + " AS t WHERE " + over +
		" AND t.expires_at < COALESCE((SELECT expires_at FROM edge), 'infinity'::timestamptz) AND " + purgeEnds + " RETURNING true)" +
		" SELECT (SELECT expires_at FROM edge), (SELECT pg_catalog.count(*) FROM gone)"

	// $1 and $2 as above, $3 only those of that very instant. The rows are taken
	// with FOR UPDATE, which looks at each as it is now, and once: a subquery that
	// the planner runs anew for each row would find the next batch each time, past
	// those it has removed. Answers the latest instant
	// removed, the instant after $1, and how many were removed. What the DELETE
	// restates is written so that no index on it can tempt the planner away from
	// the key's.
	over += " AND (NOT $3::boolean OR t.expires_at = $1::timestamptz)"
	restated := "COALESCE(" + over + ", false)"
	s.pick = read + "x AS MATERIALIZED (SELECT t.key FROM " + n.table + " t WHERE " + over + " AND " + purgeEnds +
		" ORDER BY t.expires_at LIMIT $2::bigint FOR UPDATE OF t SKIP LOCKED)," +
		" gone AS (DELETE FROM " + n.table + " AS t USING x WHERE t.key = x.key AND " + restated + " AND " + purgeEnds + " RETURNING t.expires_at)" +
		" SELECT (SELECT pg_catalog.max(expires_at) FROM gone), $1::timestamptz + interval '1 microsecond', (SELECT pg_catalog.count(*) FROM gone)"

	// Unknown records, from key $1 on: $2 how many to look at, $3 for how long, in
	// microseconds, their outcome must have been unknown. Answers the last key
	// looked at, NULL at the end, and how many were removed.
	old := "t.expires_at IS NULL AND " + purgeIntact + " AND (t.state = 1 AND t.lease_until > 'epoch'::timestamptz OR t.state = 2 AND t.held)" +
		" AND GREATEST(t.changed_at, t.lease_until) < (SELECT now FROM clock) - $3::bigint * interval '1 microsecond'"
	s.page = read + "page AS MATERIALIZED (SELECT t.key FROM " + n.table + " t WHERE t.expires_at IS NULL AND t.key > $1::text ORDER BY t.key LIMIT $2::bigint)," +
		" x AS MATERIALIZED (SELECT t.key FROM " + n.table + " t WHERE t.key IN (SELECT key FROM page) AND " + old + " FOR UPDATE OF t SKIP LOCKED)," +
		" gone AS (DELETE FROM " + n.table + " AS t USING x WHERE t.key = x.key AND " + old + " RETURNING true)" +
		" SELECT (SELECT pg_catalog.max(key) FROM page), (SELECT pg_catalog.count(*) FROM gone)"

	s.behind = "SELECT GREATEST(0, COALESCE(pg_catalog.date_part('epoch', " + clock + " - (SELECT t.expires_at FROM " + n.table + " t" +
		" WHERE t.expires_at > '-infinity'::timestamptz ORDER BY t.expires_at LIMIT 1)), 0) * 1000000)::bigint"

	r := strings.NewReplacer("::text", "::pg_catalog.text", "::timestamptz", "::pg_catalog.timestamptz")
	for _, text := range []*string{&s.slice, &s.pick, &s.page, &s.behind} {
		*text = r.Replace(*text)
	}
	return s
}
