package idem_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
)

func TestKeyJoinsItsParts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		parts []string
		want  string
	}{
		{[]string{"charge", "inv_8842"}, "charge:inv_8842"},
		{[]string{"a"}, "a"},
		{[]string{"a:b"}, "a%3Ab"},
		{[]string{"a%3Ab"}, "a%253Ab"},
		{[]string{"a", "b"}, "a:b"},
		{[]string{":", "%"}, "%3A:%25"},
		{[]string{"a b", "\u00e9", "{x}"}, "a b:\u00e9:{x}"},
		{[]string{"a", "b", "c", "d"}, "a:b:c:d"},
	} {
		got, err := idem.Key(tc.parts...)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
}

func TestKeyRefusesWhatCannotBeAKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", idem.MaxKeyLen)
	for name, parts := range map[string][]string{
		"no part":        {},
		"empty part":     {"charge", ""},
		"not UTF-8":      {"charge", "\xff"},
		"NUL":            {"\x00a"},
		"control":        {"a\tb"},
		"C1 control":     {"a\u0085"},
		"too long":       {long, "a"},
		"too long, by %": {strings.Repeat("%", 171)},
	} {
		_, err := idem.Key(parts...)
		require.ErrorIs(t, err, idem.ErrInvalidKey, name)
		require.NotContains(t, err.Error(), "charge", "the text names the part by its number: keys may identify a person")
	}
	got, err := idem.Key(long)
	require.NoError(t, err)
	require.Len(t, got, idem.MaxKeyLen)
}

// Two lists of parts never give the same key, and the parts can be read back.
func FuzzKey(f *testing.F) {
	f.Add("charge", "inv_8842", "charge", "inv:8842")
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a%3Ab", "", "a:b", "")
	f.Add("%", "%25", "%25", "%")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		first, err := idem.Key(a, b)
		if err != nil {
			require.ErrorIs(t, err, idem.ErrInvalidKey)
			return
		}
		require.True(t, utf8.ValidString(first))
		require.LessOrEqual(t, len(first), idem.MaxKeyLen)
		unescape := strings.NewReplacer("%3A", ":", "%25", "%")
		back := strings.Split(first, ":")
		require.Equal(t, []string{a, b}, []string{unescape.Replace(back[0]), unescape.Replace(back[1])})
		require.Len(t, back, 2)
		if second, err := idem.Key(c, d); err == nil {
			require.Equal(t, a == c && b == d, first == second)
		}
		if single, err := idem.Key(c); err == nil {
			require.NotEqual(t, first, single)
		}
		w := newWorld(t, nil, nil) // every key is accepted by every call
		_, err = w.store.Execute(t.Context(), first, returns("1"))
		require.NoError(t, err)
	})
}

// vector is one line of testdata/providerkey.json: the published vectors of
// Claim.ProviderKey, for those who derive the same keys in another language.
type vector struct {
	Namespace   string `json:"namespace"`
	Key         string `json:"key"`
	Provider    string `json:"provider"`
	ProviderKey string `json:"provider_key"`
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	raw, err := os.ReadFile("testdata/providerkey.json")
	require.NoError(tb, err)
	var file struct {
		Derivation string   `json:"derivation"`
		Vectors    []vector `json:"vectors"`
	}
	require.NoError(tb, json.Unmarshal(raw, &file))
	require.NotEmpty(tb, file.Derivation)
	require.GreaterOrEqual(tb, len(file.Vectors), 6)
	return file.Vectors
}

func TestProviderKeysAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range vectors(t) {
		require.Equal(t, v.ProviderKey, derive(v.Namespace, v.Key, v.Provider), "the vectors say what the derivation says")
		for _, policy := range policies() {
			w := newWorld(t, nil, &idem.Options{Namespace: v.Namespace})
			c, err := w.store.Claim(t.Context(), v.Key, lease, policy.opts...)
			require.NoError(t, err)
			require.Equal(t, v.ProviderKey, c.ProviderKey(v.Provider))
			require.NoError(t, w.store.Release(t.Context(), c))
			again, err := w.process(t, &idem.Options{Namespace: v.Namespace}).store.Claim(t.Context(), v.Key, lease)
			require.NoError(t, err)
			require.Equal(t, v.ProviderKey, again.ProviderKey(v.Provider), "the same for every attempt and process")
			require.Equal(t, 2, again.Attempt())
		}
		require.False(t, seen[v.ProviderKey])
		seen[v.ProviderKey] = true
	}
}

// derive is the published derivation, written anew: SHA-256 of "idem/pk/1" and
// the length-prefixed namespace, key and provider.
func derive(parts ...string) string {
	h := sha256.New()
	h.Write([]byte("idem/pk/1"))
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint32(len(p)))
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)[:16]
	sum[6] = 0x80 | sum[6]&0x0f
	sum[8] = 0x80 | sum[8]&0x3f
	s := hex.EncodeToString(sum)
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

func TestProviderKeysHaveTheShapeOfAUUID(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]string{}
	for _, namespace := range []string{"", "a", "ab"} {
		w := newWorld(t, nil, &idem.Options{Namespace: namespace})
		for _, key := range []string{"b", "bc", "ab", strings.Repeat("\u00e9", 256)} {
			c, err := w.store.Claim(t.Context(), key, lease)
			require.NoError(t, err)
			for _, provider := range []string{"", "c", "bank", "Bank"} {
				pk := c.ProviderKey(provider)
				require.Regexp(t, shape, pk)
				require.Len(t, pk, 36)
				who := namespace + "|" + key + "|" + provider
				require.Empty(t, seen[pk], who)
				seen[pk] = who
			}
		}
	}
}

func TestHashKeyIsAShortDigest(t *testing.T) {
	t.Parallel()
	require.Equal(t, "9a50b2928f635927", idem.HashKey("pay", "k3"), "published: logs of two releases can be compared")
	require.Len(t, idem.HashKey("", ""), 16)
	seen := map[string]bool{}
	for _, pair := range [][2]string{{"", "a"}, {"a", ""}, {"a", "b"}, {"ab", ""}, {"", "ab"}} {
		h := idem.HashKey(pair[0], pair[1])
		require.False(t, seen[h], "%q", pair)
		seen[h] = true
	}
}
