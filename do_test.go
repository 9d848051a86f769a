package idem_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

type charge struct {
	ID     string         `json:"id"`
	Amount int            `json:"amount"`
	Tags   map[string]any `json:"tags,omitempty"`
}

// roundTrip does v twice and requires the same value both times.
func roundTrip[T any](t *testing.T, w *world, key string, v T) {
	t.Helper()
	n := 0
	for i := range 2 {
		var report idem.Result
		got, err := idem.Do(t.Context(), w.store, key, func(_ context.Context, c *idem.Claim) (T, error) {
			require.Equal(t, key, c.Key())
			n++
			return v, nil
		}, idem.ReportTo(&report))
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.Equal(t, i == 1, report.Replayed)
		require.NotZero(t, report.Token)
	}
	require.Equal(t, 1, n)
}

func TestDoReplaysWhatTheOperationReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	roundTrip(t, w, "struct", charge{"ch_1", 42, map[string]any{"a": "b"}})
	roundTrip(t, w, "zero struct", charge{})
	roundTrip(t, w, "pointer", &charge{ID: "ch_1"})
	roundTrip(t, w, "nil pointer", (*charge)(nil))
	roundTrip(t, w, "slice", []int{1, 2})
	roundTrip(t, w, "empty slice", []int{})
	roundTrip(t, w, "nil slice", []int(nil))
	roundTrip(t, w, "map", map[string]int{"a": 1})
	roundTrip(t, w, "nil map", map[string]int(nil))
	roundTrip(t, w, "bytes", []byte{0, 255})
	roundTrip(t, w, "string", "a\x00b\u00e9")
	roundTrip(t, w, "empty string", "")
	roundTrip(t, w, "int", 7)
	roundTrip(t, w, "bool", false)
	roundTrip(t, w, "any", any("text"))
	roundTrip(t, w, "nil any", any(nil))
	roundTrip(t, w, "unit", struct{}{})
}

func TestDoRecordsTheCodecsNameBesideTheValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	roundTrip(t, w, "k", charge{ID: "ch_1"})
	out := w.record(t, "k").Outcome
	require.Equal(t, "json", out.Codec)
	require.JSONEq(t, `{"id":"ch_1","amount":0}`, string(out.Value))
	g := newWorld(t, nil, &idem.Options{Codec: gobCodec{}})
	roundTrip(t, g, "k", charge{ID: "ch_1"})
	require.Equal(t, "gob", g.record(t, "k").Outcome.Codec)
}

// gobCodec is another codec than the default.
type gobCodec struct{}

func (gobCodec) ID() string { return "gob" }

func (gobCodec) Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Decode(b []byte, v any) error { return gob.NewDecoder(bytes.NewReader(b)).Decode(v) }

// Recorded bytes that cannot be decoded into T: fix the type; never re-run.
func TestAValueOfAnotherTypeOrCodecIsADecodeError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	g := w.process(t, &idem.Options{Codec: gobCodec{}})
	secret := `"top secret"`
	_, err := viaDo(t.Context(), w.store, "json", returns(secret))
	require.NoError(t, err)
	_, err = w.store.Execute(t.Context(), "raw", returns("top secret"))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		key   string
		store *idem.Store
		raw   string
		codec string
		says  string
	}{
		"another type":  {"json", w.store, secret, "json", "cannot unmarshal"},
		"another codec": {"json", g.store, secret, "json", `"gob"`},
		"not encoded":   {"raw", w.store, "top secret", "", "invalid character"},
	} {
		var report idem.Result
		for range 2 {
			got, err := idem.Do(t.Context(), tc.store, tc.key, func(context.Context, *idem.Claim) (int, error) {
				require.Fail(t, "it ran")
				return 0, nil
			}, idem.ReportTo(&report))
			require.Zero(t, got)
			var decode *idem.DecodeError
			require.ErrorAs(t, err, &decode, name)
			require.ErrorIs(t, err, idem.ErrNotDecoded)
			require.Equal(t, tc.raw, string(decode.Raw))
			require.Equal(t, tc.codec, decode.CodecID)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "top secret")
			require.Equal(t, idem.EffectEarlier, infoOf(t, err).Effect)
			require.True(t, report.Replayed)
		}
		res, err := tc.store.Execute(t.Context(), tc.key, forbidden(t))
		require.NoError(t, err, "the raw bytes are there")
		require.Equal(t, tc.raw, string(res.Value))
	}
	var syntax *json.UnmarshalTypeError
	_, err = idem.Do(t.Context(), w.store, "json", func(context.Context, *idem.Claim) (int, error) { return 0, nil })
	require.ErrorAs(t, err, &syntax, "the codec's own error")
}

// What was recorded as raw bytes, by Execute or by a recovery, is offered to the
// codec.
func TestDoDecodesWhatExecuteRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", returns(`{"id":"ch_1","amount":3}`))
	require.NoError(t, err)
	got, err := idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (charge, error) { return charge{}, errBoom })
	require.NoError(t, err)
	require.Equal(t, charge{ID: "ch_1", Amount: 3}, got)

	_, err = w.store.Execute(t.Context(), "k2", fails(errBoom))
	require.ErrorIs(t, err, errBoom)
	var report idem.Result
	for i := range 2 {
		got, err = idem.Do(t.Context(), w.store, "k2", func(context.Context, *idem.Claim) (charge, error) { return charge{}, errBoom },
			idem.ReportTo(&report), idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) {
				return idem.Recovered(idem.Result{Value: []byte(`{"id":"ch_2"}`)}), nil
			}))
		require.NoError(t, err)
		require.Equal(t, "ch_2", got.ID)
		require.True(t, report.Recovered)
		require.Equal(t, i == 1, report.Replayed)
	}
}

// badCodec cannot encode, or cannot decode.
type badCodec struct {
	encode, decode func()
}

func (badCodec) ID() string { return "bad" }

func (c badCodec) Encode(v any) ([]byte, error) {
	if c.encode != nil {
		c.encode()
	}
	return json.Marshal(v)
}

func (c badCodec) Decode(b []byte, v any) error {
	if c.decode != nil {
		c.decode()
	}
	return json.Unmarshal(b, v)
}

// touchy cannot be encoded.
type touchy struct{ err error }

func (v touchy) MarshalJSON() ([]byte, error) {
	if v.err == nil {
		panic("cannot be encoded")
	}
	return nil, v.err
}

// encodeOnce does v, which cannot be encoded, and requires that it is done all
// the same.
func encodeOnce[T any](t *testing.T, codec idem.Codec, v T, want error) {
	t.Helper()
	w := newWorld(t, nil, &idem.Options{Codec: codec})
	n := 0
	do := func(report *idem.Result) (T, error) {
		return idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (T, error) {
			n++
			return v, nil
		}, idem.ReportTo(report))
	}
	var report idem.Result
	_, err := do(&report)
	require.ErrorIs(t, err, idem.ErrNotEncoded)
	if want != nil {
		require.ErrorIs(t, err, want)
	}
	require.False(t, report.Replayed)
	require.NotZero(t, report.Token)
	_, err = do(&report)
	require.ErrorIs(t, err, idem.ErrNotEncoded)
	require.True(t, report.Replayed)
	require.Equal(t, 1, n, "never a second run")
	require.Equal(t, driver.BodyNotEncoded, w.record(t, "k").Outcome.Body)
}

func TestWhatCannotBeEncodedIsDone(t *testing.T) {
	t.Parallel()
	encodeOnce(t, nil, func() {}, nil)
	encodeOnce(t, nil, math.NaN(), nil)
	encodeOnce(t, nil, touchy{errBoom}, errBoom)
	encodeOnce(t, nil, touchy{}, nil)
	encodeOnce(t, badCodec{encode: func() { panic("nil map") }}, 1, nil)
}

// A codec that cannot bear what it reads has not decoded it.
func TestACodecThatPanicsOnDecodingIsADecodeError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, &idem.Options{Codec: badCodec{decode: func() { panic("nil map") }}})
	do := func() (int, error) {
		return idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (int, error) { return 7, nil })
	}
	got, err := do()
	require.NoError(t, err)
	require.Equal(t, 7, got)
	require.NotPanics(t, func() { _, err = do() })
	require.ErrorIs(t, err, idem.ErrNotDecoded)
}

func TestDoReturnsTheValueBesideErrorsThatSayItRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seven := func(context.Context, *idem.Claim) (string, error) { return "seven", nil }
		w := newWorld(t, faultstore.Fail(faultstore.Complete, 0, errDown), nil)
		var report idem.Result
		got, err := idem.Do(t.Context(), w.store, "k", seven, idem.ReportTo(&report))
		require.ErrorIs(t, err, idem.ErrNotRecorded)
		require.Equal(t, "seven", got)
		require.Equal(t, `"seven"`, string(report.Value))

		small := newWorld(t, nil, &idem.Options{MaxValue: 6})
		got, err = idem.Do(t.Context(), small.store, "k", seven)
		require.ErrorIs(t, err, idem.ErrTooLarge)
		require.Equal(t, "seven", got)
		got, err = idem.Do(t.Context(), small.store, "k", seven)
		require.ErrorIs(t, err, idem.ErrTooLarge)
		require.Empty(t, got)

		_, err = idem.Do(t.Context(), newWorld(t, nil, nil).store, "k", func(context.Context, *idem.Claim) (string, error) { return "beside", errBoom })
		require.ErrorIs(t, err, errBoom)
	})
}

// What an operator resolved, or a recovery found, and was too large to keep has no
// value in a replay: that is what the error says, and not that it cannot be decoded.
func TestDoSaysOfAReplayedVerdictThatItsValueWasTooLarge(t *testing.T) {
	t.Parallel()
	large := idem.Recovered(idem.Result{Value: []byte(`"` + strings.Repeat("x", 50) + `"`)})
	fails := func(context.Context, *idem.Claim) (string, error) { return "", idem.Unknown(errBoom) }
	for name, settle := range map[string]func(w *world) error{
		"resolved": func(w *world) error {
			return w.store.Resolve(t.Context(), "k", w.record(t, "k").Token, idem.Resolution{Recovery: large})
		},
		"recovered": func(w *world) error {
			_, err := idem.Do(t.Context(), w.store, "k", fails, idem.WithRecover(func(context.Context, *idem.Claim) (idem.Recovery, error) { return large, nil }))
			require.ErrorIs(t, err, idem.ErrTooLarge)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, &idem.Options{MaxValue: 8})
			_, err := idem.Do(t.Context(), w.store, "k", fails)
			require.ErrorIs(t, err, errBoom)
			_ = settle(w)
			got, err := idem.Do(t.Context(), w.store, "k", fails)
			require.ErrorIs(t, err, idem.ErrTooLarge)
			require.NotErrorIs(t, err, idem.ErrNotDecoded)
			require.Empty(t, got)
		})
	}
}

// Nothing of a run that lost its lease is handed out as if it counted.
func TestDoReturnsNoValueWhenTheLeaseWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, err := stolenValue(t)
		require.ErrorIs(t, err, idem.ErrLeaseLost)
		require.Empty(t, got)
	})
}

func stolenValue(t *testing.T) (string, error) {
	t.Helper()
	w := newWorld(t, faultstore.Fail(faultstore.Complete, 1, driver.ErrLeaseLost), nil)
	return idem.Do(t.Context(), w.store, "k", func(context.Context, *idem.Claim) (string, error) { return "mine", nil })
}

// The report is set before the call returns, also beside an error, whatever was
// in it before.
func TestReportToIsSetBesideErrorsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := newWorld(t, nil, nil)
		require.NoError(t, closed.store.Close(t.Context()))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range map[string]func(r *idem.Result) error{
			"invalid key": func(r *idem.Result) error {
				_, err := idem.Do(t.Context(), newWorld(t, nil, nil).store, "", doOne, idem.ReportTo(r))
				return err
			},
			"invalid option": func(r *idem.Result) error {
				_, err := idem.Do(t.Context(), newWorld(t, nil, nil).store, "k", doOne, idem.ReportTo(r), idem.WithLease(-1))
				return err
			},
			"closed": func(r *idem.Result) error {
				_, err := idem.Do(t.Context(), closed.store, "k", doOne, idem.ReportTo(r))
				return err
			},
			"context ended": func(r *idem.Result) error {
				_, err := idem.Do(ended, newWorld(t, nil, nil).store, "k", doOne, idem.ReportTo(r))
				return err
			},
			"unavailable": func(r *idem.Result) error {
				_, err := idem.Do(t.Context(), newWorld(t, faultstore.Fail("", 0, errDown), nil).store, "k", doOne, idem.ReportTo(r))
				return err
			},
			"of the operation": func(r *idem.Result) error {
				_, err := newWorld(t, nil, nil).store.Execute(t.Context(), "k", fails(errBoom), idem.ReportTo(r))
				return err
			},
		} {
			stale := idem.Result{Value: []byte("of an earlier call"), Replayed: true, Token: 7}
			require.Error(t, call(&stale), name)
			require.Equal(t, idem.Result{}, stale, name)
		}
	})
}

func doOne(context.Context, *idem.Claim) (int, error) { return 1, nil }

// What an operation puts into the other fields of its Result is not kept.
func TestOnlyTheValueOfAResultIsKept(t *testing.T) {
	t.Parallel()
	for _, v := range []way{ways()[0], ways()[2]} {
		w := newWorld(t, nil, nil)
		lies := idem.Result{Value: []byte("1"), Replayed: true, Recovered: true, Unprotected: true, Token: 99}
		_, err := v.call(t.Context(), w.store, "k", func(context.Context) (idem.Result, error) { return lies, nil })
		require.NoError(t, err)
		res, err := w.process(t, nil).store.Execute(t.Context(), "k", forbidden(t))
		require.NoError(t, err)
		require.Equal(t, w.record(t, "k").Token, res.Token)
		require.True(t, res.Replayed)
		require.False(t, res.Recovered || res.Unprotected)
	}
	w := newWorld(t, nil, nil)
	res, err := w.store.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
		return idem.Result{Value: []byte("1"), Replayed: true, Recovered: true, Unprotected: true, Token: 99}, nil
	})
	require.NoError(t, err)
	require.False(t, res.Replayed || res.Recovered || res.Unprotected)
	require.Equal(t, w.record(t, "k").Token, res.Token)
}

// The caller may do with its result what it likes: the record is its own.
func TestAResultIsACopyOfTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	for range 3 {
		res, err := w.store.Execute(t.Context(), "k", returns("value"))
		require.NoError(t, err)
		require.Equal(t, "value", string(res.Value))
		copy(res.Value, "XXXXX")
	}
}

// The verdicts of a recovery that are none.
func TestARecoveryMustGiveAVerdict(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]idem.Recovery{"zero": {}, "failure without an error": idem.RecoveredFailure(nil)} {
		for _, v := range ways() {
			w := newWorld(t, nil, nil)
			_, err := w.store.Execute(t.Context(), "k", fails(errBoom))
			require.ErrorIs(t, err, errBoom)
			_, err = v.call(t.Context(), w.store, "k", forbidden(t), idem.WithRecover(
				func(context.Context, *idem.Claim) (idem.Recovery, error) { return verdict, nil }))
			require.ErrorIs(t, err, idem.ErrOutcomeUnknown, name)
			require.True(t, w.record(t, "k").Held, name)
			require.False(t, errors.Is(err, errBoom), fmt.Sprint(name, v.name))
		}
	}
}
