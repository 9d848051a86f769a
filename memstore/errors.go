package memstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// Errors do not name the key: it may identify a person, and the caller knows it.

func errNotFound() error { return fmt.Errorf("memstore: %w", driver.ErrNotFound) }

func errLeaseLost(why string) error { return fmt.Errorf("memstore: %w: %s", driver.ErrLeaseLost, why) }

func errConflict(why string) error { return fmt.Errorf("memstore: %w: %s", driver.ErrConflict, why) }

func errFull(used, limit int64) error {
	return fmt.Errorf("memstore: %w: %d of MaxBytes = %d bytes are used, and no record looked at has ended its retention: "+
		"raise Options.MaxBytes, shorten the retention, or Purge with UnknownAfter", driver.ErrUnavailable, used, limit)
}

// The checks below refuse parameters that no caller of the contract may send,
// before anything changed.

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("memstore: %w: it is empty", driver.ErrInvalidKey)
	}
	return nil
}

func checkOwner(o driver.Owner) error {
	if o == (driver.Owner{}) {
		return errors.New("memstore: the owner is zero: it must be random, and made anew for each claim")
	}
	return nil
}

func checkLease(d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("memstore: a lease of %v is shorter than 1ms", d)
	}
	return nil
}

func checkRetention(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("memstore: a retention of %v is not positive", d)
	}
	return nil
}

func checkClaim(p *driver.ClaimParams) error {
	return errors.Join(checkKey(p.Key), checkOwner(p.Owner), checkLease(p.Lease), checkRetention(p.Retention))
}

func checkRelease(p *driver.ReleaseParams) error {
	if p.NotExecuted && (p.Held || p.Doubt) {
		return errors.New("memstore: NotExecuted contradicts Held and Doubt")
	}
	return checkRetention(p.Retention)
}
