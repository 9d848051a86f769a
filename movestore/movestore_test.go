package movestore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/movestore"
)

// bench is both stores, and a Store of each deploy.
type bench struct {
	old, next           *memstore.Backend
	oldFault, nextFault atomic.Pointer[faultstore.Hook]
	stores              map[kind]*idem.Store
	wrapped             map[kind]*movestore.Backend
	runs                int
}

func newBench(t *testing.T, policy idem.UnknownPolicy) *bench {
	t.Helper()
	b := &bench{
		old: memstore.New(nil), next: memstore.New(nil),
		stores: make(map[kind]*idem.Store), wrapped: make(map[kind]*movestore.Backend),
	}
	reach := func(to driver.Backend, fault *atomic.Pointer[faultstore.Hook]) driver.Backend {
		return faultstore.New(to, func(ctx context.Context, c faultstore.Call) faultstore.Fault {
			if h := fault.Load(); h != nil {
				return (*h)(ctx, c)
			}
			return faultstore.Fault{}
		})
	}
	old, next := reach(b.old, &b.oldFault), reach(b.next, &b.nextFault)
	b.wrapped[both], b.wrapped[newAlone] = move(t, old, next, movestore.Both), move(t, old, next, movestore.NewAlone)
	for k, backend := range map[kind]driver.Backend{plainOld: old, both: b.wrapped[both], newAlone: b.wrapped[newAlone], plainNew: next} {
		s, err := idem.New(backend, &idem.Options{OnUnknown: policy, Retention: 90 * 24 * time.Hour, Observer: idem.Discard})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
		b.stores[k] = s
	}
	return b
}

func (b *bench) op(context.Context) (idem.Result, error) {
	b.runs++
	return idem.Result{Value: fmt.Append(nil, b.runs)}, nil
}

func (b *bench) execute(t *testing.T, k kind, key string) idem.Result {
	t.Helper()
	res, err := b.stores[k].Execute(t.Context(), key, b.op)
	require.NoError(t, err)
	return res
}

func set(p *atomic.Pointer[faultstore.Hook], h faultstore.Hook) { p.Store(&h) }

func inBubble(t *testing.T, policy idem.UnknownPolicy, body func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { body(t, newBench(t, policy)) })
}

func TestNewRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	a, b := memstore.New(nil), memstore.New(nil)
	for says, build := range map[string]func() (*movestore.Backend, error){
		"nil":   func() (*movestore.Backend, error) { return movestore.New(nil, b, movestore.Both) },
		"a sto": func() (*movestore.Backend, error) { return movestore.New(a, nil, movestore.Both) },
		"same":  func() (*movestore.Backend, error) { return movestore.New(a, a, movestore.Both) },
		"phase": func() (*movestore.Backend, error) { return movestore.New(a, b, 7) },
	} {
		got, err := build()
		require.Nil(t, got)
		require.ErrorContains(t, err, says)
	}
}

// Each deploy replays what the one before has recorded, and the one after it what
// it records.
func TestEveryDeployReplaysWhatItsNeighboursRecorded(t *testing.T) {
	t.Parallel()
	neighbours := [][2]kind{{plainOld, both}, {both, plainOld}, {both, newAlone}, {newAlone, both}, {newAlone, plainNew}, {plainNew, newAlone}}
	for _, n := range neighbours {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				b.execute(t, n[0], "k")
				for range 3 {
					res := b.execute(t, n[1], "k")
					require.True(t, res.Replayed)
					require.Equal(t, "1", string(res.Value))
				}
			})
		})
	}
}

// What the first deploy records is in both stores; what plain old processes have
// recorded comes to the new one when a process of the second deploy asks for it.
func TestOutcomesAreInBothStores(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		b.execute(t, both, "one")
		b.execute(t, plainOld, "two")
		b.execute(t, newAlone, "two")
		for _, key := range []string{"one", "two"} {
			require.True(t, b.execute(t, plainOld, key).Replayed)
			require.True(t, b.execute(t, plainNew, key).Replayed)
		}
		require.Equal(t, 2, b.runs)
	})
}

// The retention counts from completion also when the outcome moves (I13).
func TestAnOutcomeThatMovesIsKeptAsLongAsItWouldHaveBeen(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		b.execute(t, plainOld, "k")
		b.execute(t, plainOld, "c")
		time.Sleep(80 * 24 * time.Hour)
		b.execute(t, newAlone, "k")
		_, err := b.wrapped[newAlone].Copy(t.Context())
		require.NoError(t, err)
		time.Sleep(10*24*time.Hour - 1)
		require.True(t, b.execute(t, plainNew, "k").Replayed)
		require.True(t, b.execute(t, plainNew, "c").Replayed)
		time.Sleep(time.Nanosecond)
		require.False(t, b.execute(t, plainNew, "k").Replayed)
		require.False(t, b.execute(t, plainNew, "c").Replayed)
	})
}

func TestARunningOperationIsInProgressForTheNeighbours(t *testing.T) {
	t.Parallel()
	for _, n := range [][2]kind{{plainOld, both}, {both, plainOld}, {both, newAlone}, {newAlone, both}, {newAlone, plainNew}, {plainNew, newAlone}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				_, err := b.stores[n[0]].Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
					time.Sleep(5 * time.Minute) // renewed many times
					_, err := b.stores[n[1]].Execute(ctx, "k", b.op)
					require.ErrorIs(t, err, idem.ErrInProgress)
					return b.op(ctx)
				})
				require.NoError(t, err)
				require.True(t, b.execute(t, n[1], "k").Replayed)
			})
		})
	}
}

// The careful words of an operation, a recovery or an operator reach both stores.
func TestHeldAndDoubtfulKeysStaySoInTheNextDeploy(t *testing.T) {
	t.Parallel()
	for _, n := range [][2]kind{{plainOld, both}, {both, newAlone}, {both, plainOld}, {newAlone, plainNew}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				_, err := b.stores[n[0]].Execute(t.Context(), "held", func(context.Context) (idem.Result, error) {
					return idem.Result{}, idem.Unknown(errors.New("timed out"))
				})
				require.Error(t, err)
				_, err = b.stores[n[1]].Execute(t.Context(), "held", b.op)
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)

				_, err = b.stores[n[0]].Execute(t.Context(), "doubt", func(context.Context) (idem.Result, error) {
					return idem.Result{}, errors.New("any")
				})
				require.Error(t, err)
				_, err = b.stores[n[1]].Execute(t.Context(), "doubt", func(ctx context.Context) (idem.Result, error) {
					c, _ := idem.ClaimFrom(ctx)
					require.True(t, c.Takeover())
					return b.op(ctx)
				})
				require.NoError(t, err)

				rec, err := b.stores[n[1]].Inspect(t.Context(), "held")
				require.NoError(t, err)
				require.NoError(t, b.stores[n[1]].Resolve(t.Context(), "held", rec.Token, idem.Resolution{Recovery: idem.NotExecuted(), By: "olga"}))
				require.False(t, b.execute(t, n[1], "held").Replayed, "resolved, in both")
			})
		})
	}
}

// An operator's verdict in the second deploy is about a key that only the old
// store knows.
func TestTheSecondDeployResolvesWhatOnlyTheOldStoreKnows(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]idem.Recovery{
		"not executed": idem.NotExecuted(), "succeeded": idem.Recovered(idem.Result{Value: []byte("7")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Hold, func(t *testing.T, b *bench) {
				_, err := b.stores[plainOld].Execute(t.Context(), "k", func(context.Context) (idem.Result, error) {
					return idem.Result{}, idem.Unknown(errors.New("timed out"))
				})
				require.Error(t, err)
				_, err = b.stores[newAlone].Execute(t.Context(), "k", b.op)
				require.ErrorIs(t, err, idem.ErrOutcomeUnknown)
				rec, err := b.stores[newAlone].Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.NoError(t, b.stores[newAlone].Resolve(t.Context(), "k", rec.Token, idem.Resolution{Recovery: verdict, By: "olga"}))
				res, err := b.stores[newAlone].Execute(t.Context(), "k", b.op)
				require.NoError(t, err)
				require.Equal(t, name == "succeeded", res.Replayed)
			})
		})
	}
}

func TestAFingerprintIsComparedInBothStores(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		_, err := b.stores[plainOld].Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("one")))
		require.NoError(t, err)
		for _, k := range []kind{both, newAlone} {
			_, err = b.stores[k].Execute(t.Context(), "k", b.op, idem.WithFingerprint([]byte("two")))
			require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		}
		require.Equal(t, 1, b.runs)
	})
}

// Either store is away: nothing runs that somebody else could run too; what is
// recorded where one can look is replayed.
func TestWhileAStoreIsAwayNothingNewRuns(t *testing.T) {
	t.Parallel()
	away := faultstore.Fail("", 0, errors.New("connection refused"))
	for _, k := range []kind{both, newAlone} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				b.execute(t, k, "done")
				for i, fault := range []*atomic.Pointer[faultstore.Hook]{&b.oldFault, &b.nextFault} {
					set(fault, away)
					_, err := b.stores[k].Execute(t.Context(), "new", b.op)
					require.ErrorIs(t, err, idem.ErrUnavailable)
					if first := map[kind]int{both: 1, newAlone: 0}[k]; i == first {
						require.True(t, b.execute(t, k, "done").Replayed, "the store that answers is up")
					}
					fault.Store(nil)
					time.Sleep(time.Minute)
				}
				require.Equal(t, 1, b.runs)
				require.False(t, b.execute(t, k, "new").Replayed)
			})
		})
	}
}

// The second store did not take the outcome: it is in the first, and found.
func TestAnOutcomeInOneStoreOnlyIsFound(t *testing.T) {
	t.Parallel()
	lost := faultstore.Fail(faultstore.Complete, 0, errors.New("connection refused"))
	for _, c := range []struct {
		k     kind
		fault func(b *bench) *atomic.Pointer[faultstore.Hook]
		err   error
		finds []kind
	}{
		{both, func(b *bench) *atomic.Pointer[faultstore.Hook] { return &b.nextFault }, idem.ErrNotRecorded, []kind{plainOld, both, newAlone}},
		{newAlone, func(b *bench) *atomic.Pointer[faultstore.Hook] { return &b.oldFault }, nil, []kind{plainNew, newAlone, both}},
	} {
		t.Run(fmt.Sprint(c.k), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Hold, func(t *testing.T, b *bench) {
				set(c.fault(b), lost)
				_, err := b.stores[c.k].Execute(t.Context(), "k", b.op)
				require.ErrorIs(t, err, c.err)
				c.fault(b).Store(nil)
				time.Sleep(time.Minute) // the lease has ended
				for _, k := range c.finds {
					require.True(t, b.execute(t, k, "k").Replayed, "%v", k)
				}
			})
		})
	}
}

func TestEditsReachBothStores(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{both, newAlone} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
				token := func(key string) uint64 {
					rec, err := b.stores[k].Inspect(t.Context(), key)
					require.NoError(t, err)
					return rec.Token
				}
				b.execute(t, both, "secret")
				require.NoError(t, b.stores[k].Redact(t.Context(), "secret", token("secret"), "asked"))
				b.execute(t, both, "again")
				require.NoError(t, b.stores[k].Reset(t.Context(), "again", token("again"), "asked"))
				for _, s := range []kind{plainOld, plainNew} {
					_, err := b.stores[s].Execute(t.Context(), "secret", b.op)
					require.ErrorIs(t, err, idem.ErrRedacted)
				}
				require.False(t, b.execute(t, k, "again").Replayed)
				require.ErrorIs(t, b.stores[k].Redact(t.Context(), "none", 7, "asked"), idem.ErrNotFound)
				require.ErrorIs(t, b.stores[k].Redact(t.Context(), "again", 7, "asked"), idem.ErrConflict)
			})
		})
	}
}

func TestACopyBringsOutcomesAndDoubtsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		old := b.stores[plainOld]
		b.execute(t, plainOld, "done")
		_, _ = old.Execute(t.Context(), "held", func(ctx context.Context) (idem.Result, error) {
			c, _ := idem.ClaimFrom(ctx)
			require.NoError(t, c.SaveRef(ctx, "card", "ch_1"))
			return idem.Result{}, idem.Unknown(errors.New("timed out"))
		}, idem.WithFingerprint([]byte("one")))
		_, _ = old.Execute(t.Context(), "doubt", func(context.Context) (idem.Result, error) { return idem.Result{}, errors.New("any") })
		_, _ = old.Execute(t.Context(), "free", func(context.Context) (idem.Result, error) {
			return idem.Result{}, idem.NotApplied(errors.New("refused"))
		})
		_, err := old.Claim(t.Context(), "running", time.Minute)
		require.NoError(t, err)

		c, err := b.wrapped[newAlone].Copy(t.Context())
		require.NoError(t, err)
		require.Equal(t, &movestore.Copied{Outcomes: 1, Doubts: 2, Left: 1, Keys: []string{driver.JoinKey("", "running")}}, c)
		time.Sleep(time.Minute)
		c, err = b.wrapped[newAlone].Copy(t.Context())
		require.NoError(t, err)
		require.Equal(t, &movestore.Copied{Doubts: 1, There: 3}, c)

		require.True(t, b.execute(t, plainNew, "done").Replayed)
		rec, err := b.stores[plainNew].Inspect(t.Context(), "held")
		require.NoError(t, err)
		require.True(t, rec.Held)
		require.Equal(t, []driver.ProviderRef{{Provider: "card", Ref: "ch_1"}}, rec.Refs)
		_, err = b.stores[plainNew].Execute(t.Context(), "held", b.op, idem.WithFingerprint([]byte("two")))
		require.ErrorIs(t, err, idem.ErrFingerprintMismatch)
		for _, key := range []string{"doubt", "running"} {
			rec, err := b.stores[plainNew].Inspect(t.Context(), key)
			require.NoError(t, err)
			require.True(t, rec.Doubt, key)
		}
		_, err = b.next.Inspect(t.Context(), driver.JoinKey("", "free"))
		require.ErrorIs(t, err, driver.ErrNotFound)
	})
}

// The copying process dies after its claim: the next copy ends what it began, and
// until then a process of the second deploy finds the outcome.
func TestACopyThatDiesIsRepeated(t *testing.T) {
	t.Parallel()
	inBubble(t, idem.Rerun, func(t *testing.T, b *bench) {
		b.execute(t, plainOld, "k")
		set(&b.nextFault, faultstore.Fail(faultstore.Complete, 0, errors.New("killed")))
		_, err := b.wrapped[newAlone].Copy(t.Context())
		require.ErrorContains(t, err, "killed")
		b.nextFault.Store(nil)
		time.Sleep(time.Hour)
		c, err := b.wrapped[newAlone].Copy(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, c.Outcomes)
		require.True(t, b.execute(t, plainNew, "k").Replayed)
	})
}

func TestACopyNeedsAStoreThatLists(t *testing.T) {
	t.Parallel()
	m := move(t, struct{ driver.Backend }{memstore.New(nil)}, memstore.New(nil), movestore.NewAlone)
	_, err := m.Copy(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// A store that somebody could claim in past the wrapper would not be safe.
func TestItCannotBeUnwrapped(t *testing.T) {
	t.Parallel()
	_, ok := driver.As[*memstore.Backend](move(t, memstore.New(nil), memstore.New(nil), movestore.Both))
	require.False(t, ok)
}
