package driver_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
)

func TestAStoredKeyIsSplitIntoWhatItWasJoinedFrom(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, namespace := range []string{"", "a", "ab", "1:a", ":", "pay", "0:", "äö"} {
		for _, key := range []string{"b", "1:b", "ab", ":b", "0:b", "inv_1", "payinv_1", "日本"} {
			stored := driver.JoinKey(namespace, key)
			require.False(t, seen[stored], "two pairs share the record %q", stored)
			seen[stored] = true
			ns, k, err := driver.SplitKey(stored)
			require.NoError(t, err)
			require.Equal(t, [2]string{namespace, key}, [2]string{ns, k})
		}
	}
	require.Equal(t, "3:payinv_1", driver.JoinKey("pay", "inv_1"), "published")
}

func TestWhatWasNeverJoinedIsNotSplit(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "k", "3", "3pay", ":k", "x:k", "-1:k", "+1:ak", "01:ak", "4:pay", "1e1:k", " 1:ak", strconv.Itoa(1<<62) + ":k", "99999999999999999999:k"} {
		_, _, err := driver.SplitKey(stored)
		require.ErrorIs(t, err, driver.ErrInvalidKey, "%q", stored)
	}
}

func FuzzSplitKey(f *testing.F) {
	f.Add("3:payinv_1")
	f.Add("0:")
	f.Fuzz(func(t *testing.T, stored string) {
		if ns, key, err := driver.SplitKey(stored); err == nil {
			require.Equal(t, stored, driver.JoinKey(ns, key))
		}
	})
}
