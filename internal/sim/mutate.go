package sim

import (
	"unsafe"

	"github.com/idem-go/idem"
)

// keyText is the caller's key. A caller that mutates its input has it in bytes
// that it changes while the operation runs.
func (e *exec) keyText() string {
	if !e.s.mutates {
		return e.key.name
	}
	e.bytes = []byte(e.key.name)
	return unsafe.String(&e.bytes[0], len(e.bytes)) //nolint:gosec // strings over a caller's buffer exist
}

// fingerprintOption is WithFingerprint, over bytes that the operation changes.
func (e *exec) fingerprintOption() idem.ExecuteOption {
	e.body = e.s.body()
	return idem.WithFingerprint(e.body)
}

// mutate is what an operation must not be able to hurt anything with: it changes
// the bytes of its key and of its request.
func (e *exec) mutate() {
	for i := range e.bytes {
		e.bytes[i] ^= 1
	}
	for i := range e.body {
		e.body[i] ^= 1
	}
}
