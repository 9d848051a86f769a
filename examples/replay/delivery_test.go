package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func all(t *testing.T, src source) []delivery {
	t.Helper()
	var ds []delivery
	for {
		d, err := src.next()
		if errors.Is(err, io.EOF) {
			return ds
		}
		require.NoError(t, err)
		ds = append(ds, d)
	}
}

func TestALineThatIsNoDeliveryIsReadAsUnreadableAndStopsNothing(t *testing.T) {
	t.Parallel()
	text := `{"id":"1","key":"a","type":"charge","amount":5,"unheard":"of"}

{"id":"2","key":"b","type":"cha
{"id":"3","key":"c","type":"charge","amount":"five"}
` + `{"key":"` + strings.Repeat("x", 2*maxLine) + `"}
{"id":"4","key":"d","type":"charge","amount":7}`
	ds := all(t, newLineSource(strings.NewReader(text)))
	require.Len(t, ds, 5)
	require.Equal(t, delivery{ID: "1", Key: "a", Type: "charge", Amount: 5}, ds[0])
	require.True(t, ds[1].unreadable)
	require.True(t, ds[2].unreadable)
	require.True(t, ds[3].unreadable)
	require.Equal(t, "d", ds[4].Key)
	line, err := ds[1].line()
	require.NoError(t, err)
	require.Equal(t, `{"id":"2","key":"b","type":"cha`, string(line), "what cannot be read is kept as it came")
}

func TestTheBodyLeavesOutTheAccidentsOfDelivery(t *testing.T) {
	t.Parallel()
	d := delivery{ID: "1", Key: "k", Type: "charge", Amount: 5, Currency: "EUR", Source: "s", Seq: 3}
	again := d
	again.ID, again.Seq = "2", 9
	require.Equal(t, d.body(), again.body())
	for _, change := range []func(*delivery){
		func(d *delivery) { d.Amount++ },
		func(d *delivery) { d.Type = "refund" },
		func(d *delivery) { d.Currency = "USD" },
		func(d *delivery) { d.Source = "t" },
	} {
		other := d
		change(&other)
		require.NotEqual(t, d.body(), other.body())
	}
}

func TestPoisonIsRecognised(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&delivery{Type: "anything", Amount: 1}).validate())
	require.ErrorIs(t, (&delivery{Amount: 1}).validate(), errNoType)
	require.ErrorIs(t, (&delivery{Type: "charge"}).validate(), errNoAmount)
	require.ErrorIs(t, (&delivery{Type: "charge", Amount: -1}).validate(), errNoAmount)
	require.True(t, usable("charge:inv_1"))
	for _, key := range []string{"", "a\x00b", "\xff", strings.Repeat("k", 513)} {
		require.False(t, usable(key), "%q", key)
	}
}
