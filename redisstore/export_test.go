package redisstore

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// Decode reads the bytes of a record as Inspect does.
func Decode(raw, key string, now uint64) (driver.Record, error) {
	var l layout
	if err := l.split(raw, false); err != nil {
		return driver.Record{}, err
	}
	var rec driver.Record
	err := l.read(&rec, key, now)
	return rec, err
}

// ScriptName is how the server names the script of that file.
func ScriptName(file string) string {
	s := newScripts()
	return fmt.Sprint(map[string]script{
		"claim": s.claim, "take": s.take, "renew": s.renew, "annotate": s.annotate, "complete": s.complete,
		"release": s.release, "redact": s.redact, "reset": s.reset,
	}[file].sha)
}

// ClockFinding is what Check says of a server whose clock is ahead by skew.
func ClockFinding(skew time.Duration) *driver.Finding { return (&server{skew: skew}).differs() }

// VersionFinding is what Check says of a server of that version.
func VersionFinding(version string) *driver.Finding {
	return (&server{info: map[string]string{"redis_version": version}}).isOld()
}

// EncodeCopy is a copy as a server would keep it; DecodeCopy reads one.
func EncodeCopy(r *driver.Record) string {
	head := append([]byte{copyMark}, make([]byte, copyHead-1)...)
	return string(append(head, encodeCopy(r)...))
}

// DecodeCopy reads a copy as Get does.
func DecodeCopy(raw, key string, now uint64) (*driver.Record, bool) { return decodeCopy(raw, key, now) }
