package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheJudgeCountsWhatTheLedgerShows(t *testing.T) {
	t.Parallel()
	j, l := newJudge(), &ledger{}
	for _, key := range []string{"once", "twice", "thrice", "never", "declined", "declined in silence", "failed without reason"} {
		j.delivered(key)
		j.delivered(key) // a redelivery is no other operation
	}
	for i, key := range []string{"once", "twice", "thrice", "thrice", "twice", "thrice"} {
		l.write(charge{operation: hash64(key), delivery: int64(i), amount: 100})
	}
	j.refused("declined")
	j.failed("declined")
	j.refused("declined in silence")  // nobody was told
	j.failed("failed without reason") // nobody had refused it
	want := verdict{operations: 7, effects: 6, doubled: 2, lost: 3, overcharged: 300, example: []int64{2, 3}}
	require.Equal(t, want, j.verdict(l))
	require.Equal(t, want, j.verdict(l), "a second reading counts anew")
}

func TestManyChargesOfOneOperationAreOneDoubledEffect(t *testing.T) {
	t.Parallel()
	j, l := newJudge(), &ledger{}
	for range 1000 {
		l.write(charge{operation: hash64("a"), amount: 1})
	}
	j.delivered("a")
	require.Equal(t, verdict{operations: 1, effects: 1000, doubled: 1, overcharged: 999, example: []int64{0, 0}}, j.verdict(l))
}

func TestTheLedgerKeepsEachChargeAcrossPages(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	for i := range 3*ledgerPage + 5 {
		require.Equal(t, chargeNumber(i), l.write(charge{delivery: int64(i)}))
	}
	require.Equal(t, 3*ledgerPage+5, l.len())
	require.Equal(t, int64(ledgerPage), l.at(ledgerPage).delivery)
	next := 0
	l.each(func(n chargeNumber, c charge) {
		require.Equal(t, next, int(n))
		require.Equal(t, int64(next), c.delivery)
		next++
	})
	require.Equal(t, l.len(), next)
}

func TestAnOutcomeIsForgottenIfItsOperationRunsAfterSomebodyWasToldIt(t *testing.T) {
	t.Parallel()
	j, l := newJudge(), &ledger{}
	yes, no := func() bool { return true }, func() bool { return false }
	j.delivered("a")
	j.begins("a", yes) // the first attempt
	j.begins("a", yes) // another one, because nobody heard of the first
	require.Zero(t, j.verdict(l).forgotten)
	j.told("a")
	j.begins("a", no) // a stale holder, which will notice
	require.Zero(t, j.verdict(l).forgotten)
	j.begins("a", yes)
	require.Equal(t, int64(1), j.verdict(l).forgotten)
}
