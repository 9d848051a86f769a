package redisstore_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/redisstore"
)

// recorded is a record as a release has stored it, and what it means.
type recorded struct {
	Name string
	Hex  string
	Now  uint64 // the server's time, in microseconds, at which Want holds
	Want driver.Record
}

// The bytes of format 1 stay in the repository, and readable, for ever. They are
// written once, by -record; a change of the format adds another file.
const format1 = "testdata/format1.json"

var record = flag.Bool("record", false, "write "+format1) //nolint:gochecknoglobals // a flag

func readRecorded(tb testing.TB) []recorded {
	tb.Helper()
	text, err := os.ReadFile(format1)
	require.NoError(tb, err)
	var out []recorded
	require.NoError(tb, json.Unmarshal(text, &out))
	require.NotEmpty(tb, out)
	return out
}

func TestRecordedBytesOfFormat1AreRead(t *testing.T) {
	t.Parallel()
	if *record {
		writeRecorded(t)
	}
	for _, r := range readRecorded(t) {
		raw, err := hex.DecodeString(r.Hex)
		require.NoError(t, err)
		got, err := redisstore.Decode(string(raw), r.Want.Key, r.Now)
		require.NoError(t, err, r.Name)
		require.Equal(t, r.Want, got, r.Name)
	}
}

// C61: the previous release's record replays, and its claims go on.
func TestRecordedBytesOfFormat1AreWorkedOn(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	for _, r := range readRecorded(t) {
		raw, err := hex.DecodeString(r.Hex)
		require.NoError(t, err)
		key := r.Name
		require.NoError(t, rdb.Set(t.Context(), b.RedisKey(key), raw, time.Hour).Err())
		ref := driver.Ref{Key: key, Owner: r.Want.Owner, Token: r.Want.Token}
		err = b.Annotate(t.Context(), ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "new", Ref: "1"}}})
		if raw[atPhase] == 1 {
			require.NoError(t, err, r.Name)
		} else {
			require.ErrorIs(t, err, driver.ErrLeaseLost, r.Name)
		}
		p := params(key, func(p *driver.ClaimParams) { p.Fingerprints = []driver.Fingerprint{r.Want.Fingerprint} })
		if r.Want.Fingerprint.IsZero() {
			p.Fingerprints = nil
		}
		res, err := b.Claim(t.Context(), p)
		require.NoError(t, err, r.Name)
		if r.Want.State.Completed() {
			require.Equal(t, driver.Completed, res.Fact, r.Name)
			require.Equal(t, r.Want.Outcome, res.Record.Outcome, r.Name)
			continue
		}
		require.Contains(t, []driver.Fact{driver.Acquired, driver.TakenOver}, res.Fact, r.Name) // its lease is long over
		require.Equal(t, r.Want.Attempt+1, res.Record.Attempt, r.Name)
		require.Greater(t, res.Record.Token, r.Want.Token, r.Name)
		complete(t, b, driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}, "done")
	}
}

// writeRecorded makes a record of each kind on a real server.
func writeRecorded(t *testing.T) {
	t.Helper()
	ctx, rdb := t.Context(), shared(t)
	b := open(t, rdb)
	full := func(p *driver.ClaimParams) {
		p.Fingerprints = []driver.Fingerprint{{KeyID: "k1", Sum: [32]byte{1, 2, 31: 3}}}
		p.Providers = []driver.ProviderWindow{{Name: "acme", Window: 24 * time.Hour}, {Name: "bank \"é\"", Window: 90 * time.Minute}}
	}
	refs := &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "acme", Ref: "ch_1"}, {Provider: "", Ref: "x\x00y"}}}
	audit := &driver.Audit{By: "olga", Why: "ticket 12, é"}
	var out []recorded
	add := func(name string) {
		raw, err := rdb.Get(ctx, b.RedisKey(name)).Bytes()
		require.NoError(t, err)
		now := binary.BigEndian.Uint64(raw[31:]) + 1_500_000
		want, err := redisstore.Decode(string(raw), name, now)
		require.NoError(t, err)
		out = append(out, recorded{Name: name, Hex: hex.EncodeToString(raw), Now: now, Want: want})
	}
	acquire(t, b, "claimed", lease(2*time.Second))
	add("claimed")
	acquire(t, b, "claimed, full", full, lease(2*time.Second))
	add("claimed, full")
	acquire(t, b, "lease ended", lease(time.Second))
	add("lease ended")
	for name, how := range map[string]driver.ReleaseParams{
		"released": {}, "released in doubt": {Doubt: true}, "held": {Held: true, Audit: audit}, "not executed": {NotExecuted: true},
	} {
		ref := acquire(t, b, name, full)
		require.NoError(t, b.Annotate(ctx, ref, refs))
		how.Retention = kept
		require.NoError(t, b.Release(ctx, ref, &how))
		add(name)
	}
	require.NoError(t, b.Release(ctx, acquire(t, b, "taken over held", full), &driver.ReleaseParams{Held: true, Retention: kept}))
	acquire(t, b, "taken over held", full, lease(2*time.Second))
	_, err := b.Watch(ctx, "taken over held")
	require.NoError(t, err)
	add("taken over held")
	for name, o := range map[string]driver.Outcome{
		"succeeded": {Value: []byte("5 paid"), Codec: "json"}, "succeeded, empty": {}, "succeeded, recovered": {Value: []byte{0, 0xff}, Recovered: true},
		"not encoded": {Body: driver.BodyNotEncoded, Codec: "json"}, "too large": {Body: driver.BodyTooLarge},
		"failed": {Failed: true, Code: "card_declined", Message: "no funds, é"}, "failed, empty": {Failed: true},
	} {
		ref := acquire(t, b, name, full)
		require.NoError(t, b.Annotate(ctx, ref, refs))
		require.NoError(t, b.Complete(ctx, ref, &driver.CompleteParams{Outcome: o, Retention: kept, Audit: audit}))
		add(name)
	}
	ref := acquire(t, b, "redacted", full)
	complete(t, b, ref, "a secret")
	require.NoError(t, b.Redact(ctx, "redacted", &driver.EditParams{Token: ref.Token, Audit: *audit}))
	add("redacted")
	ref = acquire(t, b, "reset", full)
	complete(t, b, ref, "x")
	require.NoError(t, b.Reset(ctx, "reset", &driver.EditParams{Token: ref.Token, Audit: *audit, Retention: kept}))
	add("reset")
	text, err := json.MarshalIndent(out, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	require.NoError(t, os.WriteFile(format1, append(text, '\n'), 0o644))
}

// I12: the decoder reads the exact record or says that it cannot, whatever the
// bytes.
func FuzzDecoderReadsARecordOrRefusesIt(f *testing.F) {
	for _, r := range readRecorded(f) {
		raw, err := hex.DecodeString(r.Hex)
		require.NoError(f, err)
		f.Add(raw, r.Now)
	}
	f.Add([]byte{}, uint64(0))
	f.Add(bytes.Repeat([]byte{1}, 75), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, now uint64) {
		rec, err := redisstore.Decode(string(raw), "k", now)
		if err != nil {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			return
		}
		require.EqualValues(t, 1, raw[0])
		require.NotZero(t, rec.Token)
		require.NotZero(t, rec.State)
		require.Positive(t, rec.RetentionLeft)
		require.LessOrEqual(t, len(rec.Outcome.Value)+len(rec.Outcome.Message)+len(rec.Outcome.Code), len(raw))
		require.Equal(t, rec.State == driver.Failed, rec.Outcome.Failed)
		_, err = redisstore.Decode(string(raw[:len(raw)-1]), "k", now)
		require.ErrorIs(t, err, driver.ErrCorrupt, "cut short")
		_, err = redisstore.Decode(string(raw)+"x", "k", now)
		require.ErrorIs(t, err, driver.ErrCorrupt, "too long")
	})
}

// I12: scripts and decoder have the same opinion of a damaged record. What the
// decoder cannot read, no script changes.
func TestScriptsChangeNothingThatTheDecoderCannotRead(t *testing.T) {
	t.Parallel()
	rdb := shared(t)
	b := open(t, rdb)
	unreadable := 0
	for _, r := range readRecorded(t) {
		whole, err := hex.DecodeString(r.Hex)
		require.NoError(t, err)
		for i := range 75 {
			for _, bit := range []byte{0x01, 0x80, 0xff} {
				raw := bytes.Clone(whole)
				raw[i] ^= bit
				_, err := redisstore.Decode(string(raw), "k", r.Now)
				if err == nil {
					continue
				}
				unreadable++
				requireUntouched(t, rdb, b, raw, r.Want)
			}
		}
	}
	require.Greater(t, unreadable, 100)
}

func requireUntouched(t *testing.T, rdb *redis.Client, b *redisstore.Backend, raw []byte, rec driver.Record) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, rdb.Set(ctx, b.RedisKey("k"), raw, time.Hour).Err())
	ref := driver.Ref{Key: "k", Owner: rec.Owner, Token: rec.Token}
	if ref.Owner == (driver.Owner{}) {
		ref.Owner = owner()
	}
	edit := &driver.EditParams{Token: rec.Token, Retention: kept}
	_, claim := b.Claim(ctx, params("k"))
	for what, err := range map[string]error{
		"Claim":    claim,
		"Renew":    b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Hour, Retention: kept}),
		"Annotate": b.Annotate(ctx, ref, &driver.AnnotateParams{NotExecuted: true}),
		"Complete": b.Complete(ctx, ref, &driver.CompleteParams{Outcome: success("x"), Retention: kept}),
		"Release":  b.Release(ctx, ref, &driver.ReleaseParams{Retention: kept}),
		"Redact":   b.Redact(ctx, "k", edit),
		"Reset":    b.Reset(ctx, "k", edit),
	} {
		require.ErrorIs(t, err, driver.ErrCorrupt, "%s of %x", what, raw)
	}
	is, err := rdb.Get(ctx, b.RedisKey("k")).Bytes()
	require.NoError(t, err)
	require.Equal(t, raw, is)
}
