package idem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyLen is the longest key, in bytes.
const MaxKeyLen = 512

// Key builds a key from its parts, joined with ':'. In a part ':' becomes "%3A"
// and '%' becomes "%25", so that two lists of parts never give the same key:
// Key("charge", "inv_8842") is "charge:inv_8842". It returns [ErrInvalidKey] if
// there is no part, a part is empty, is not valid UTF-8 or has control
// characters, or the key would be longer than [MaxKeyLen].
//
// Build keys from what names the operation for ever (an invoice, a message id),
// never from a time or a random number made for the attempt.
func Key(parts ...string) (string, error) {
	if len(parts) == 0 {
		return "", newError(ErrInvalidKey, "", "it has no part", nil)
	}
	escape := strings.NewReplacer(":", "%3A", "%", "%25")
	var b strings.Builder
	for i, p := range parts {
		if problem := checkText(p); problem != "" {
			return "", newError(ErrInvalidKey, "", fmt.Sprintf("part %d %s", i+1, problem), nil)
		}
		if i > 0 {
			b.WriteByte(':')
		}
		if _, err := escape.WriteString(&b, p); err != nil {
			return "", newError(ErrInvalidKey, "", "", err)
		}
	}
	if b.Len() > MaxKeyLen {
		return "", newError(ErrInvalidKey, "", fmt.Sprintf("it has %d bytes, more than %d", b.Len(), MaxKeyLen), nil)
	}
	return b.String(), nil
}

// checkText says what is wrong with a key, a part of one, or another name; ""
// if nothing is.
func checkText(s string) string {
	if s == "" {
		return "is empty"
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return checkRunes(s)
		}
	}
	return ""
}

// checkRunes is the slow part of checkText, for what is not printable ASCII.
func checkRunes(s string) string {
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Sprintf("has the control character %U", r)
		}
	}
	return ""
}

// checkKey returns an error for a key that no backend may be given.
func (s *Store) checkKey(key string) error {
	problem := checkText(key)
	if problem == "" && len(key) > MaxKeyLen {
		problem = fmt.Sprintf("has %d bytes, more than %d", len(key), MaxKeyLen)
	}
	if problem == "" {
		return nil
	}
	return newError(ErrInvalidKey, s.label(key[:min(len(key), MaxKeyLen)]), "it "+problem, nil)
}

// label is how a key appears in messages: quoted, or as a digest.
func (s *Store) label(key string) string {
	if s.opts.HashKeysInErrors {
		return "#" + HashKey(s.opts.Namespace, key)
	}
	return fmt.Sprintf("%q", key)
}

// HashKey returns the digest that stands for a key in messages and logs: 16
// hexadecimal digits of a SHA-256 over the length-prefixed namespace and key.
// It keeps keys out of logs; it does not hide a key that can be guessed.
func HashKey(namespace, key string) string {
	sum := digest("idem/log/1", namespace, key)
	return hex.EncodeToString(sum[:8])
}

// providerKey derives the key to send to a provider: UUID-shaped (RFC 9562,
// version 8), from SHA-256 of "idem/pk/1" and namespace, key and provider, each
// prefixed with its length as four bytes, big-endian.
func providerKey(namespace, key, provider string) string {
	sum := digest("idem/pk/1", namespace, key, provider)
	sum[6] = sum[6]&0x0f | 0x80 // version 8
	sum[8] = sum[8]&0x3f | 0x80 // variant
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// digest hashes a domain and length-prefixed parts.
func digest(domain string, parts ...string) [32]byte {
	b := make([]byte, 0, 256)
	b = append(b, domain...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p))) //nolint:gosec // names are shorter than 1 KiB
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}
