package pgstore

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idem-go/idem/driver"
)

// provider is a stored provider. Its window begins at since, in microseconds of
// the server's clock; at the column windows_from if that is 0.
type provider struct {
	name   string
	window time.Duration
	since  int64
}

// providerJSON and refJSON are the elements of the columns providers and refs. A
// text that Postgres cannot hold, with a zero byte or broken UTF-8, is stored
// encoded under another name (C25): base64 of one text is never taken for
// another text.
type providerJSON struct {
	Name   string `json:"n,omitempty"`
	Name64 string `json:"n64,omitempty"`
	Window int64  `json:"w"` // nanoseconds
	Since  int64  `json:"s,omitempty"`
}

type refJSON struct {
	Provider   string `json:"p,omitempty"`
	Provider64 string `json:"p64,omitempty"`
	Ref        string `json:"r,omitempty"`
	Ref64      string `json:"r64,omitempty"`
}

func storableText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// split returns s to be stored as it is, or encoded.
func split(s string) (plain, encoded string) {
	if storableText(s) {
		return s, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(s))
}

// join is the inverse of split.
func join(plain, encoded string) (string, error) {
	if encoded == "" {
		return plain, nil
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || plain != "" {
		return "", corrupt("a text is encoded wrongly")
	}
	return string(b), nil
}

// storable makes a text storable that nothing depends on to the byte. The Store
// gives valid ones; the effect has happened when they are written, so that none
// may be refused.
func storable(s string) string {
	if storableText(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func encodeProviders(ps []provider) (string, error) {
	if len(ps) == 0 {
		return "[]", nil
	}
	out := make([]providerJSON, len(ps))
	for i, p := range ps {
		out[i] = providerJSON{Window: int64(p.window), Since: p.since}
		out[i].Name, out[i].Name64 = split(p.name)
	}
	return marshal(out)
}

func encodeRefs(refs []driver.ProviderRef) (string, error) {
	if len(refs) == 0 {
		return "[]", nil
	}
	out := make([]refJSON, 0, len(refs))
	seen := make(map[driver.ProviderRef]bool, len(refs))
	for _, r := range refs {
		if seen[r] {
			continue
		}
		seen[r] = true
		var x refJSON
		x.Provider, x.Provider64 = split(r.Provider)
		x.Ref, x.Ref64 = split(r.Ref)
		out = append(out, x)
	}
	return marshal(out)
}

func marshal(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("pgstore: %w", err)
	}
	return string(b), nil
}

func decodeProviders(b []byte) ([]provider, error) {
	if string(b) == "[]" {
		return nil, nil
	}
	var in []providerJSON
	if err := json.Unmarshal(b, &in); err != nil || in == nil {
		return nil, corrupt("its providers cannot be decoded")
	}
	out := make([]provider, len(in))
	for i, p := range in {
		name, err := join(p.Name, p.Name64)
		if err != nil {
			return nil, err
		}
		out[i] = provider{name: name, window: time.Duration(p.Window), since: p.Since}
	}
	return out, nil
}

func decodeRefs(b []byte) ([]driver.ProviderRef, error) {
	if string(b) == "[]" {
		return nil, nil
	}
	var in []refJSON
	if err := json.Unmarshal(b, &in); err != nil || in == nil {
		return nil, corrupt("its references cannot be decoded")
	}
	out := make([]driver.ProviderRef, len(in))
	for i, x := range in {
		var err error
		if out[i].Provider, err = join(x.Provider, x.Provider64); err != nil {
			return nil, err
		}
		if out[i].Ref, err = join(x.Ref, x.Ref64); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// text is an argument that is NULL when empty.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// toMicros counts a duration in the server's unit, rounded up: a lease or a
// retention is never cut to nothing (C53).
func toMicros(d time.Duration) int64 {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}
