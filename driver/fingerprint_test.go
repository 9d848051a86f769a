package driver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
)

// I5, I12: one comparison for all backends.
func TestFingerprintsCompareAsTheContractSays(t *testing.T) {
	t.Parallel()
	none := driver.Fingerprint{}
	digest := func(id string, b byte) driver.Fingerprint {
		return driver.Fingerprint{KeyID: id, Sum: [32]byte{b}}
	}
	zeroSum := digest("k1", 0) // a key id makes it one, whatever the digest
	bare := digest("", 1)
	for _, c := range []struct {
		name         string
		stored       driver.Fingerprint
		given        []driver.Fingerprint
		equal, known bool
	}{
		{"none stored", none, []driver.Fingerprint{bare}, true, true},
		{"none given", bare, nil, true, true},
		{"a zero given", bare, []driver.Fingerprint{none}, true, true},
		{"zeros given", digest("k1", 1), []driver.Fingerprint{none, none}, true, true},
		{"zero on both sides", none, []driver.Fingerprint{none}, true, true},
		{"the same", bare, []driver.Fingerprint{bare}, true, true},
		{"the same behind a zero", bare, []driver.Fingerprint{none, bare}, true, true},
		{"the same behind another key's", digest("k1", 1), []driver.Fingerprint{digest("k2", 9), digest("k1", 1)}, true, true},
		{"another", bare, []driver.Fingerprint{digest("", 2)}, false, true},
		{"another behind a zero", bare, []driver.Fingerprint{none, digest("", 2)}, false, true},
		{"another before an unknown key's", digest("k1", 1), []driver.Fingerprint{digest("k1", 2), digest("k2", 1)}, false, true},
		{"an unknown key's", digest("k1", 1), []driver.Fingerprint{digest("k2", 1)}, false, false},
		{"an unknown key's and a zero", digest("k1", 1), []driver.Fingerprint{none, bare}, false, false},
		{"a digest of zeros is one", zeroSum, []driver.Fingerprint{digest("k1", 1)}, false, true},
	} {
		equal, known := c.stored.Match(c.given)
		require.Equal(t, [2]bool{c.equal, c.known}, [2]bool{equal, known}, c.name)
	}
	require.Equal(t, bare, (&driver.ClaimParams{Fingerprints: []driver.Fingerprint{none, bare, digest("", 2)}}).Print())
	require.Equal(t, none, (&driver.ClaimParams{Fingerprints: []driver.Fingerprint{none}}).Print())
	require.Equal(t, none, (&driver.ClaimParams{}).Print())
}
