package movestore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/movestore"
)

// A request that is refused leaves nothing behind that refuses the rightful one: in
// either deploy, wherever the outcome is, and in plain new afterwards.
func TestARefusedRequestStandsInNobodysWay(t *testing.T) {
	t.Parallel()
	for _, where := range [][2]kind{{plainOld, newAlone}, {newAlone, both}} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				call := func(k kind, body string) (idem.Result, error) {
					return b.stores[k].Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte(body)))
				}
				_, err := call(where[0], "one")
				require.NoError(t, err)
				_, err = call(where[1], "two")
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
				res, err := call(where[1], "one")
				require.NoError(t, err)
				require.True(t, res.Replayed)
				c, err := b.wrapped[newAlone].Copy(t.Context())
				require.NoError(t, err)
				require.Zero(t, c.Left)
				_, err = call(plainNew, "two")
				require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
				res, err = call(plainNew, "one")
				require.NoError(t, err)
				require.Equal(t, "1", string(res.Value))
				require.Equal(t, 1, b.runs)
			})
		})
	}
}

// A verdict about a key that only the old store knows is about the request that it
// knows.
func TestAResolvedKeyKeepsTheFingerprintOfTheOldStore(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Hold, func(t *testing.T, b *bench) {
		_, err := b.stores[plainOld].Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
			return idem.Result{}, idem.Unknown(errors.New("timed out"))
		}, idem.WithFingerprint([]byte("one")))
		require.Error(t, err)
		moved := b.stores[newAlone]
		rec, err := moved.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.NoError(t, moved.Resolve(t.Context(), "k", rec.Token, idem.Resolution{Recovery: idem.Recovered(idem.Result{Value: []byte("7")}), By: "olga"}))
		_, err = moved.Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("two")))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		res, err := moved.Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("one")))
		require.NoError(t, err)
		require.Equal(t, "7", string(res.Value))
	})
}

// A store that is silent keeps no key from the processes of the plain one: what was
// claimed there before it was asked is given back.
func TestASilentStoreWedgesNoKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		k, plain kind
		fault    func(b *bench) *atomic.Pointer[faultstore.Hook]
	}{
		"both":      {both, plainOld, func(b *bench) *atomic.Pointer[faultstore.Hook] { return &b.nextFault }},
		"new alone": {newAlone, plainNew, func(b *bench) *atomic.Pointer[faultstore.Hook] { return &b.oldFault }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Hold, func(t *testing.T, b *bench) {
				_, err := b.stores[tc.plain].Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
					return idem.Result{}, idem.NotApplied(errors.New("refused"))
				})
				require.Error(t, err)
				set(tc.fault(b), faultstore.At("", 0, faultstore.Fault{Before: faultstore.PauseUntil(nil)}))
				_, err = b.stores[tc.k].Execute(t.Context(), "k", b.op)
				require.ErrorIs(t, err, idem.ErrUnavailable)
				require.NotErrorIs(t, err, idem.ErrLeaseLost, "nothing ran")
				time.Sleep(10 * time.Second) // it is given up in the background
				require.False(t, b.execute(t, tc.plain, "k").Replayed, "long before the lease's end")
			})
		})
	}
}

// A call has read the old outcome, and copies it after the edit: the edit does not
// say that it is done.
func TestAnEditTellsOfACallThatCopiesTheOldOutcome(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(ctx context.Context, s *idem.Store, token uint64) error{
		faultstore.Redact: func(ctx context.Context, s *idem.Store, token uint64) error {
			return s.Redact(ctx, "k", token, "asked")
		},
		faultstore.Reset: func(ctx context.Context, s *idem.Store, token uint64) error { return s.Reset(ctx, "k", token, "asked") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				b.execute(t, plainOld, "k")
				rec, err := b.stores[newAlone].Inspect(t.Context(), "k")
				require.NoError(t, err)
				hasRead, edited, copied := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				set(&b.nextFault, faultstore.At(faultstore.Complete, 1, faultstore.Fault{Before: func(context.Context) error {
					close(hasRead)
					<-edited
					return nil
				}}))
				set(&b.oldFault, faultstore.At(name, 1, faultstore.Fault{Before: func(ctx context.Context) error {
					go func() {
						_, err := b.stores[newAlone].Execute(context.WithoutCancel(ctx), "k", b.op)
						copied <- err
					}()
					<-hasRead
					return nil
				}}))
				require.Error(t, edit(t.Context(), b.stores[newAlone], rec.Token))
				close(edited)
				require.NoError(t, <-copied)
				rec, err = b.stores[newAlone].Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.NoError(t, edit(t.Context(), b.stores[newAlone], rec.Token), "again, as the error says")
				rec, err = b.stores[newAlone].Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.Empty(t, rec.Outcome.Value)
			})
		})
	}
}

// A doubt comes over with its references and with what is left of its window, also
// if a process of the second deploy has left a doubt of its own there.
func TestACopyShortensTheWindowThatTheNewStoreWouldGive(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		ctx, window := t.Context(), []driver.ProviderWindow{{Name: "card", Window: 30 * time.Second}}
		claim := func(at driver.Backend, owner byte, least time.Duration) *driver.ClaimResult {
			res, err := at.Claim(ctx, &driver.ClaimParams{
				Key: "k", Owner: driver.Owner{owner}, Lease: 10 * time.Millisecond, Retention: time.Hour, Providers: window, MinWindow: least,
				Take: driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown,
			})
			require.NoError(t, err)
			return res
		}
		ref := driver.Ref{Key: "k", Owner: driver.Owner{1}, Token: claim(b.old, 1, 0).Record.Token}
		require.NoError(t, b.old.Annotate(ctx, ref, &driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "card", Ref: "ch_1"}}}))
		require.NoError(t, b.old.Release(ctx, ref, &driver.ReleaseParams{Doubt: true, Retention: time.Hour}))
		time.Sleep(25 * time.Second)
		require.Equal(t, driver.Held, claim(b.wrapped[newAlone], 2, 10*time.Second).Fact, "5 s are left")
		c, err := b.wrapped[newAlone].Copy(ctx)
		require.NoError(t, err)
		require.Equal(t, &movestore.Copied{Doubts: 1}, c)
		res := claim(b.next, 3, 10*time.Second)
		require.Equal(t, driver.Held, res.Fact, "in deploy 3 too")
		require.Equal(t, []driver.ProviderRef{{Provider: "card", Ref: "ch_1"}}, res.Record.Refs)
		again, err := b.wrapped[newAlone].Copy(ctx)
		require.NoError(t, err)
		require.Equal(t, &movestore.Copied{There: 1}, again)
	})
}
