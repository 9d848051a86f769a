package pgstore

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/idem-go/idem/driver"
)

// statements are the texts of one Backend. Only identifiers, checked and quoted,
// and constants of this package are in them; whatever a caller gives is an
// argument. Functions carry their schema, so that no search_path can lend them
// another meaning. Each argument carries its type, so that all modes of a client
// read it alike.
type statements struct {
	look     string // $1 key
	claim    string // see claimText
	take     string
	renew    string
	annotate string
	complete string
	release  string
	redact   string
	reset    string
	list     string
	flag     string
	channel  string // of the notifications, an argument
	listen   string
}

// columns are those of a record, as row.dest reads them, after the server's
// time: each costs both sides of the wire, so that the small ones are packed into
// one number, and what few records have into one text.
func columns(t string) []string {
	within := func(column string, most string) string {
		return "LEAST(GREATEST(" + t + column + "::integer, 0), " + most + ")" // so that no other value looks like one of ours
	}
	return []string{
		within("state", "15") + " + " + within("body", "15") + " * 16 + " + t + "held::integer * 256 + " + t + "doubt::integer * 512 + " +
			t + "failed::integer * 1024 + " + t + "recovered::integer * 2048 + " + within("format", "32767") + " * 65536",
		t + "attempt", t + "version", t + "token", t + "revision", t + "claimed_at",
		"CASE " + t + "state WHEN 1 THEN " + t + "lease_until ELSE " + t + "expires_at END", t + "recorded_at",
		t + "owner", t + "fingerprint", t + "fingerprint_key", t + "codec", rareColumn(t), t + "outcome",
	}
}

// rareColumn is NULL for a record that has nothing of it. See rare for what it
// holds.
func rareColumn(t string) string {
	micros := func(column string) string {
		return "CASE WHEN pg_catalog.isfinite(" + t + column + ") THEN (pg_catalog.date_part('epoch', " + t + column + ") * 1000000)::bigint END"
	}
	return "CASE WHEN " + t + "failed OR " + t + "audit_at IS NOT NULL OR " + t + "seal_key IS NOT NULL OR " + t + "providers <> '[]'::jsonb OR " +
		t + "refs <> '[]'::jsonb THEN pg_catalog.json_build_object('c', " + t + "code, 'm', " + t + "message, 'k', " + t + "seal_key, 'b', " +
		t + "audit_by, 'w', " + t + "audit_why, 'a', " + micros("audit_at") + ", 'p', " + t + "providers, 'r', " + t + "refs, 'f', " +
		micros("windows_from") + ")::text END"
}

const (
	clock = "pg_catalog.clock_timestamp()"
	// now is one reading of the clock, for a whole statement.
	now = "(SELECT pg_catalog.clock_timestamp() AS now) c"
	// micros is c.now as a count: the lower bound of a new token (I2).
	micros = "(pg_catalog.date_part('epoch', c.now) * 1000000)::bigint"
)

// formatVersion is written to every record.
var _ = [1]struct{}{}[driver.FormatVersion-1] // the texts below say 1

func newStatements(n *names) *statements {
	channel := n.channel()
	s := &statements{channel: channel, listen: "LISTEN " + quote(channel)}
	s.look = "SELECT " + clock + ", " + list(false) + " FROM " + n.table + " t WHERE t.key = $1::text"
	s.claim = claimText(n)
	s.take = takeText(n)
	s.settleTexts(n)
	s.editTexts(n)
	s.batchTexts(n)
	s.qualify()
	return s
}

// qualify gives the types their schema too. Those that are words of the grammar
// (boolean, bigint, interval) have it anyway.
func (s *statements) qualify() {
	r := strings.NewReplacer("::text", "::pg_catalog.text", "::bytea", "::pg_catalog.bytea", "::jsonb", "::pg_catalog.jsonb",
		"::timestamptz", "::pg_catalog.timestamptz")
	for _, text := range []*string{
		&s.look, &s.claim, &s.take, &s.renew, &s.annotate, &s.complete, &s.release, &s.redact, &s.reset, &s.list, &s.flag,
	} {
		*text = r.Replace(*text)
	}
}

// list names the columns, as c0 and so on if they are to be selected again.
func list(named bool) string {
	cols := columns("t.")
	if named {
		for i := range cols {
			cols[i] += " AS c" + strconv.Itoa(i)
		}
	}
	return strings.Join(cols, ", ")
}

// names of the columns that list(true) selects.
func selected() string {
	out := make([]string, len(columns("")))
	for i := range out {
		out[i] = "c" + strconv.Itoa(i)
	}
	return strings.Join(out, ", ")
}

// channel names the table's notifications, within the length of an identifier.
func (n *names) channel() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(n.table)) // never fails
	return "idem_" + strconv.FormatUint(h.Sum64(), 16)
}

// waiting makes a statement wait for other transactions no longer than its
// argument says. It is evaluated once, before the first row is touched, and ends
// with the statement's transaction; in one that goes on, restore brings back what
// was there before, which is kept in a setting of ours.
func waiting(arg string) string {
	return "(SELECT pg_catalog.set_config('idem.lock_timeout', pg_catalog.current_setting('lock_timeout'), true)" +
		" || pg_catalog.set_config('lock_timeout', " + arg + "::text, true)) IS NOT NULL"
}

// claimText answers with the record of a key, or creates it: one statement and
// one round trip, decided by whether the INSERT affected a row. It answers
// nothing at all if the record came to be after the statement began; the next
// one sees it.
//
// $1 key, $2 owner, $3 lease in microseconds, $4 fingerprint, $5 its key, $6
// providers, $7 lock wait.
func claimText(n *names) string {
	return "WITH seen AS (SELECT " + clock + " AS now, " + list(true) + " FROM " + n.table + " t WHERE t.key = $1::text)," +
		" made AS (INSERT INTO " + n.table + " AS t (key, format, state, held, doubt, failed, recovered, watched, body, attempt, version, revision," +
		" token, owner, claimed_at, changed_at, windows_from, lease_until, fingerprint, fingerprint_key, providers, refs)" +
		" SELECT $1::text, 1, 1, false, false, false, false, false, 0, 1, 1, 0," +
		" " + micros + ", $2::bytea, c.now, c.now, c.now, c.now + $3::bigint * interval '1 microsecond'," +
		" $4::bytea, $5::text, $6::text::jsonb, '[]'::jsonb" +
		" FROM " + now + " WHERE NOT EXISTS (SELECT FROM seen) AND " + waiting("$7") +
		" ON CONFLICT (key) DO NOTHING RETURNING t.claimed_at AS now, " + list(true) + ")" +
		" SELECT now, " + selected() + " FROM seen UNION ALL SELECT now, " + selected() + " FROM made"
}

// Which condition on the clock a takeover restates: arguments of takeText.
const (
	takesEnded    = 1 // claimed, and the lease has ended
	takesReleased = 2 // released, and the retention has not ended
	takesHeld     = 3 // held, and released
	takesExpired  = 4 // its retention has ended: a new record begins in its place
)

// takeText makes an existing record the claimant's. The caller has read it and
// decided; the statement restates all that was relied upon: that nothing changed
// since (version and token), and what the clock says. No affected row means that
// something did.
//
// $1 key, $2 owner, $3 lease, $4 fingerprint, $5 its key, $6 providers, $7 lock
// wait, $8 version, $9 token, $10 which condition, $11 the instant, in
// microseconds, after which a provider's window is too short, $12 held, $13
// doubt, $14 attempt, $15 whether the windows begin anew.
func takeText(n *names) string {
	fresh := "$10::integer = 4"
	keep := func(column, empty string) string {
		return column + " = CASE WHEN " + fresh + " THEN " + empty + " ELSE t." + column + " END"
	}
	return "UPDATE " + n.table + " AS t SET state = 1, held = $12::boolean, doubt = $13::boolean, failed = false, recovered = false," +
		" watched = false, body = 0, attempt = $14::integer, version = t.version + 1, revision = 0," +
		" token = GREATEST(t.token + 1, " + micros + "), owner = $2::bytea, claimed_at = c.now, changed_at = c.now," +
		" windows_from = CASE WHEN $15::boolean THEN c.now ELSE t.windows_from END," +
		" lease_until = c.now + $3::bigint * interval '1 microsecond', recorded_at = NULL, expires_at = NULL," +
		" fingerprint = $4::bytea, fingerprint_key = $5::text, providers = $6::text::jsonb," +
		" codec = NULL, code = NULL, message = NULL, outcome = NULL, seal_key = NULL, " +
		strings.Join([]string{keep("refs", "'[]'::jsonb"), keep("audit_by", "NULL"), keep("audit_why", "NULL"), keep("audit_at", "NULL")}, ", ") +
		" FROM " + now + " WHERE " + waiting("$7") + " AND t.key = $1::text AND t.version = $8::bigint AND t.token = $9::bigint AND t.format = 1" +
		" AND CASE $10::integer WHEN 1 THEN t.state = 1 AND t.lease_until <= c.now WHEN 2 THEN t.state = 2 AND t.expires_at > c.now" +
		" WHEN 3 THEN t.state = 2 AND t.held WHEN 4 THEN t.expires_at <= c.now ELSE false END" +
		" AND " + micros + " <= $11::bigint RETURNING c.now, " + list(false)
}

const (
	// lastOwned is the condition under which the last claim is $2's, settled or
	// not, with the token $3, 0 for whatever token the owner holds (I3): $1 key. It
	// restates what else must be readable, so that a write leaves alone what this
	// release cannot read (I12).
	lastOwned = "t.key = $1::text AND t.owner = $2::bytea AND (t.token = $3::bigint OR $3::bigint = 0)" +
		" AND t.format = 1 AND (t.fingerprint IS NULL OR pg_catalog.octet_length(t.fingerprint) = 32)"
	// owned is the condition under which a claim's owner may write (I3).
	owned = lastOwned + " AND t.state = 1 AND t.lease_until > 'epoch'::timestamptz"
)

// audited sets the audit columns if the argument says so.
func audited(set, by, why string) string {
	one := func(column, value string) string {
		return column + " = CASE WHEN " + set + "::boolean THEN " + value + " ELSE t." + column + " END"
	}
	return one("audit_by", by+"::text") + ", " + one("audit_why", why+"::text") + ", " + one("audit_at", "c.now")
}

// hint notifies those who wait, if the record says that there are any: a
// notification costs every commit a lock that all of them share.
func hint(channel, payload string) string {
	return " RETURNING CASE WHEN t.watched THEN pg_catalog.pg_notify(" + channel + "::text, " + payload + "::text) END IS NULL"
}

// settleTexts are the statements of a claim's owner.
func (s *statements) settleTexts(n *names) {
	update := "UPDATE " + n.table + " AS t SET changed_at = c.now, version = t.version + 1, "
	from := " FROM " + now + " WHERE " + owned
	// $4 lease
	s.renew = update + "lease_until = c.now + $4::bigint * interval '1 microsecond'" + from + " RETURNING true"
	// $4 references, $5 not executed, which is nothing new where nothing is in
	// doubt, $6 to $8 audit
	clears := "($5::boolean AND (t.held OR t.doubt))"
	added := "pg_catalog.jsonb_array_elements($4::text::jsonb) WITH ORDINALITY n (r, i)" +
		" WHERE NOT EXISTS (SELECT FROM pg_catalog.jsonb_array_elements(t.refs) h (r) WHERE h.r = n.r)"
	s.annotate = update +
		"refs = t.refs || COALESCE((SELECT pg_catalog.jsonb_agg(n.r ORDER BY n.i) FROM " + added + "), '[]'::jsonb)," +
		" held = t.held AND NOT $5::boolean, doubt = t.doubt AND NOT $5::boolean," +
		" windows_from = CASE WHEN " + clears + " THEN c.now ELSE t.windows_from END," +
		" providers = CASE WHEN " + clears + " THEN COALESCE((SELECT pg_catalog.jsonb_agg(p.v - 's' ORDER BY p.i)" +
		" FROM pg_catalog.jsonb_array_elements(t.providers) WITH ORDINALITY p (v, i)), '[]'::jsonb) ELSE t.providers END, " +
		audited("$6", "$7", "$8") + from +
		" AND (" + clears + " OR $6::boolean OR EXISTS (SELECT FROM " + added + ")) RETURNING true"
	// $4 failed, $5 recovered, $6 body, $7 codec, $8 outcome, $9 code, $10
	// message, $11 retention, $12 to $14 audit, $15 channel, $16 payload
	s.complete = update + "state = 3, held = false, failed = $4::boolean, recovered = $5::boolean, body = $6::smallint, codec = $7::text," +
		" outcome = $8::bytea, code = $9::text, message = $10::text, revision = 1, lease_until = NULL, recorded_at = c.now," +
		" expires_at = c.now + $11::bigint * interval '1 microsecond', " + audited("$12", "$13", "$14") + from + hint("$15", "$16")
	// $4 held, $5 doubt, $6 not executed, $7 retention, $8 to $10 audit, $11
	// channel, $12 payload. What is released already is released again if that is
	// the more careful end (I6).
	s.release = update + "state = 2, lease_until = NULL, held = (t.held OR $4::boolean) AND NOT $6::boolean," +
		" doubt = (t.doubt OR $4::boolean OR $5::boolean) AND NOT $6::boolean," +
		" providers = CASE WHEN $6::boolean THEN '[]'::jsonb ELSE t.providers END," +
		" expires_at = CASE WHEN (t.held OR $4::boolean) AND NOT $6::boolean THEN NULL ELSE c.now + $7::bigint * interval '1 microsecond' END, " +
		audited("$8", "$9", "$10") + " FROM " + now + " WHERE " + lastOwned + " AND (t.state = 1 AND t.lease_until > 'epoch'::timestamptz" +
		" OR t.state = 2 AND (t.held OR t.expires_at > c.now) AND ($4::boolean AND NOT t.held OR ($4::boolean OR $5::boolean) AND NOT t.doubt))" +
		hint("$11", "$12")
	// flags a record for a notification: $2 lock wait
	s.flag = "UPDATE " + n.table + " AS t SET watched = true WHERE " + waiting("$2") + " AND t.key = $1::text AND t.state = 1 AND NOT t.watched RETURNING true"
}

// editTexts are those of an operator: compare-and-set on what was read. $1 key,
// $2 version, $3 token, $4 and $5 audit.
func (s *statements) editTexts(n *names) {
	update := "UPDATE " + n.table + " AS t SET changed_at = c.now, version = t.version + 1," +
		" audit_by = $4::text, audit_why = $5::text, audit_at = c.now, "
	from := " FROM " + now + " WHERE t.key = $1::text AND t.version = $2::bigint AND t.token = $3::bigint AND t.format = 1"
	s.redact = update + "outcome = NULL, message = CASE WHEN t.failed THEN '' END, refs = '[]'::jsonb, body = 3, revision = t.revision + 1" +
		from + " AND t.state = 3 AND t.expires_at > c.now RETURNING true"
	// $6 the owner of nobody, $7 retention, $8 channel, $9 payload
	s.reset = update + "state = 2, held = false, doubt = false, failed = false, recovered = false, body = 0, revision = 0," +
		" owner = $6::bytea, token = GREATEST(t.token + 1, " + micros + "), lease_until = NULL, recorded_at = NULL," +
		" expires_at = c.now + $7::bigint * interval '1 microsecond'," +
		" codec = NULL, code = NULL, message = NULL, outcome = NULL, seal_key = NULL" +
		from + " AND (t.state <> 1 OR t.lease_until <= c.now) AND (t.expires_at IS NULL OR t.expires_at > c.now)" + hint("$8", "$9")
}

// batchTexts are those that touch many records.
func (s *statements) batchTexts(n *names) {
	// In the place of the outcome's value: whether there is one.
	cols := strings.TrimSuffix(list(false), "t.outcome") + "CASE WHEN t.outcome IS NOT NULL THEN ''::bytea END"
	state := "CASE WHEN t.state = 3 AND t.failed THEN 3 WHEN t.state = 3 THEN 2 WHEN t.state = 2 AND NOT t.held THEN 4" +
		" WHEN t.state = 1 AND t.lease_until > c.now THEN 1 ELSE 5 END"
	// $1 prefix, $2 key after which the page begins, $3 the states as driver.State,
	// NULL for all, $4 limit, $5 only what does not expire, $6 no key with the
	// prefix is greater
	s.list = "SELECT c.now, " + cols + ", t.key FROM " + n.table + " t, " + now +
		" WHERE t.key > $2::text AND t.key >= $1::text AND t.key <= $6::text AND pg_catalog.starts_with(t.key, $1::text)" +
		" AND (NOT $5::boolean OR t.expires_at IS NULL)" +
		" AND (t.expires_at IS NULL OR t.expires_at > c.now) AND ($3::text IS NULL OR (" + state + ")::text = ANY ($3::text::text[]))" +
		" ORDER BY t.key LIMIT $4::bigint"
}
