package redisstore

import (
	"time"

	"github.com/idem-go/idem/driver"
)

// TakeScript and ClaimScript are how the server names two scripts.
func TakeScript() any  { return newScripts().take.sha }
func ClaimScript() any { return newScripts().claim.sha }

// Decode reads the bytes of a record as Inspect does.
func Decode(raw, key string, now uint64) (driver.Record, error) {
	l, err := split(raw, false)
	if err != nil {
		return driver.Record{}, err
	}
	return l.record(key, now)
}

// ScriptName is how the server names the script of that file.
func ScriptName(file string) string {
	s := newScripts()
	return map[string]script{
		"claim": s.claim, "take": s.take, "renew": s.renew, "annotate": s.annotate, "complete": s.complete,
		"release": s.release, "redact": s.redact, "reset": s.reset,
	}[file].sha.(string)
}

// ClockFinding is what Check says of a server whose clock is ahead by skew.
func ClockFinding(skew time.Duration) *driver.Finding { return (&server{skew: skew}).differs() }
