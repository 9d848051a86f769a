package idem_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
)

func fingerprintKey(id string) idem.FingerprintKey {
	key := sha256.Sum256([]byte(id))
	return idem.FingerprintKey{ID: id, Key: key[:]}
}

func keyed(id string, body string) driver.Fingerprint {
	mac := hmac.New(sha256.New, fingerprintKey(id).Key)
	mac.Write([]byte(body))
	return driver.Fingerprint{KeyID: id, Sum: [32]byte(mac.Sum(nil))}
}

func keys(ids ...string) *idem.Options {
	o := &idem.Options{}
	for _, id := range ids {
		o.FingerprintKeys = append(o.FingerprintKeys, fingerprintKey(id))
	}
	return o
}

func TestADigestOfTheRequestIsStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts *idem.Options
		want driver.Fingerprint
	}{
		"SHA-256":             {nil, driver.Fingerprint{Sum: sha256.Sum256([]byte("body"))}},
		"HMAC-SHA-256":        {keys("k1"), keyed("k1", "body")},
		"with the first key":  {keys("k2", "k1"), keyed("k2", "body")},
		"with the first, too": {keys("k1", "k2"), keyed("k1", "body")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, tc.opts)
			_, err := w.store.Execute(t.Context(), "k", returns("1"), fingerprint("body"))
			require.NoError(t, err)
			require.Equal(t, tc.want, w.record(t, "k").Fingerprint)
		})
	}
}

// A stored fingerprint of a body with a card number must be no guessable hash.
func TestNoUnkeyedDigestOfTheBodyReachesTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, keys("k1", "k2"))
	body := "4242424242424242"
	for _, v := range ways() {
		_, err := v.call(t.Context(), w.store, "k"+v.name, returns("1"), fingerprint(body))
		require.NoError(t, err)
		_, err = v.call(t.Context(), w.store, "k"+v.name, forbidden(t), fingerprint("other"))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		require.NotContains(t, err.Error(), body)
	}
	plain := sha256.Sum256([]byte(body))
	for _, e := range w.faults.Log() {
		require.NotContains(t, fmt.Sprintf("%v %+v", e.Params, e.Params), body)
		p, ok := e.Params.(*driver.ClaimParams)
		if !ok {
			continue
		}
		require.Len(t, p.Fingerprints, 2)
		for _, f := range p.Fingerprints {
			require.NotEqual(t, plain, f.Sum)
			require.NotEmpty(t, f.KeyID)
		}
	}
}

// Keys rotate: the first writes, all are compared.
func TestFingerprintKeysRotate(t *testing.T) {
	t.Parallel()
	for _, end := range []error{nil, errBoom, idem.Unknown(errUnknown), idem.Permanent(errPermanent), idem.NotApplied(errNothing)} {
		t.Run(fmt.Sprint(end), func(t *testing.T) {
			t.Parallel()
			memory := memstore.New(nil)
			before := newProcess(t, memory, nil, keys("old"))
			_, err := before.store.Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
				return idem.Result{Value: []byte("1")}, end
			}, fingerprint("body"))
			require.ErrorIs(t, err, end)

			during := newProcess(t, memory, nil, keys("new", "old"))
			_, err = during.store.Execute(t.Context(), "k", forbidden(t), fingerprint("other"))
			require.ErrorIs(t, err, idem.ErrFingerprintMismatch, "it is reported in every state")
			_, err = during.store.Execute(t.Context(), "k", returns("1"), fingerprint("body"))
			require.NotErrorIs(t, err, idem.ErrFingerprintMismatch)
			require.Equal(t, keyed("old", "body"), during.record(t, "k").Fingerprint, "the stored one stays")
			_, err = during.store.Execute(t.Context(), "k2", returns("2"), fingerprint("body"))
			require.NoError(t, err)
			_, err = before.store.Execute(t.Context(), "k2", forbidden(t), fingerprint("body"))
			require.ErrorIs(t, err, idem.ErrCorrupt, "the old process does not know the new key")

			after := newProcess(t, memory, nil, keys("new"))
			_, err = after.store.Execute(t.Context(), "k", forbidden(t), fingerprint("body"))
			require.ErrorIs(t, err, idem.ErrCorrupt, "nothing can be said: never taken for absent")
			_, err = after.store.Execute(t.Context(), "k2", forbidden(t), fingerprint("body"))
			require.NoError(t, err)
		})
	}
}

func TestKeyedAndPlainFingerprintsCannotBeCompared(t *testing.T) {
	t.Parallel()
	memory := memstore.New(nil)
	plain, withKey := newProcess(t, memory, nil, nil), newProcess(t, memory, nil, keys("k1"))
	_, err := plain.store.Execute(t.Context(), "plain", returns("1"), fingerprint("body"))
	require.NoError(t, err)
	_, err = withKey.store.Execute(t.Context(), "keyed", returns("1"), fingerprint("body"))
	require.NoError(t, err)
	_, err = withKey.store.Execute(t.Context(), "plain", forbidden(t), fingerprint("body"))
	require.ErrorIs(t, err, idem.ErrCorrupt)
	_, err = plain.store.Execute(t.Context(), "keyed", forbidden(t), fingerprint("body"))
	require.ErrorIs(t, err, idem.ErrCorrupt)
}

// The same in one process: what runs here may carry a fingerprint that an
// earlier claim set.
func TestADuplicateWithAnUnknownFingerprintKeyIsCorruptWithoutAsking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t, nil, keys("old"))
		_, err := before.store.Execute(t.Context(), "k", fails(errBoom), fingerprint("body"))
		require.ErrorIs(t, err, errBoom)
		w := newProcess(t, before.memory, nil, keys("new"))
		done := w.execute(t.Context(), "k", takes(time.Second, "1"))
		synctest.Wait()
		_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("body"))
		require.ErrorIs(t, err, idem.ErrCorrupt)
		require.ErrorContains(t, err, `"old"`)
		require.Equal(t, 1, w.faults.Count(faultstore.Claim))
		require.NoError(t, (<-done).err)
	})
}

// No fingerprint on either side compares equal; the first claim that carries one
// and acquires the key sets it.
func TestTheFirstClaimWithAFingerprintSetsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	run := func(err error, opts ...idem.ExecuteOption) error {
		_, got := w.store.Execute(t.Context(), "k", fails(err), opts...)
		return got
	}
	require.ErrorIs(t, run(errBoom), errBoom)
	require.True(t, w.record(t, "k").Fingerprint.IsZero())
	require.ErrorIs(t, run(errBoom, fingerprint("a")), errBoom)
	require.ErrorIs(t, run(errBoom, fingerprint("b")), idem.ErrFingerprintMismatch)
	require.ErrorIs(t, run(errBoom), errBoom, "none compares equal")
	require.ErrorIs(t, run(errBoom, fingerprint("a")), errBoom)
}

// The fingerprint of nothing is one: an empty body is not "no body".
func TestAnEmptyRequestHasAFingerprint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	_, err := w.store.Execute(t.Context(), "k", returns("1"), idem.WithFingerprint(nil))
	require.NoError(t, err)
	require.False(t, w.record(t, "k").Fingerprint.IsZero())
	_, err = w.store.Execute(t.Context(), "k", forbidden(t), fingerprint("x"))
	require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
	_, err = w.store.Execute(t.Context(), "k", forbidden(t), idem.WithFingerprint([]byte{}))
	require.NoError(t, err)
}

// I5: a mismatch never changes a record, and waits for nothing.
func TestAMismatchChangesNothing(t *testing.T) {
	t.Parallel()
	eachEnd(t, func(t *testing.T, e end, v way, p policy) {
		p.opts = append([]idem.ExecuteOption{fingerprint("a")}, p.opts...)
		w, _ := e.happen(t, v, p)
		before := w.record(t, "k")
		other := w.process(t, nil)
		for _, q := range policies() {
			_, err := v.call(t.Context(), other.store, "k", forbidden(t), append([]idem.ExecuteOption{fingerprint("b")}, q.opts...)...)
			require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
			require.False(t, errors.Is(err, idem.ErrInProgress) || errors.Is(err, idem.ErrRecordedFailure))
		}
		require.Equal(t, before, w.record(t, "k"))
		require.Zero(t, other.faults.Count(faultstore.Release)+other.faults.Count(faultstore.Complete))
	})
}
