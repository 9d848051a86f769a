package idem

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/idem-go/idem/driver"
)

// fingerprints returns the digests of a request, one per configured key; the
// first is the one to store.
func (s *Store) fingerprints(b []byte) []driver.Fingerprint {
	if len(s.opts.FingerprintKeys) == 0 {
		return []driver.Fingerprint{{Sum: sha256.Sum256(b)}}
	}
	prints := make([]driver.Fingerprint, len(s.opts.FingerprintKeys))
	for i, k := range s.opts.FingerprintKeys {
		mac := hmac.New(sha256.New, k.Key)
		mac.Write(b)
		prints[i].KeyID = k.ID
		mac.Sum(prints[i].Sum[:0])
	}
	return prints
}
