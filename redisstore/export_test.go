package redisstore

import "github.com/idem-go/idem/driver"

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
