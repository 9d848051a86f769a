package differ

import (
	"errors"
	"fmt"
	"strings"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// sentinels are what an error may match, with the names that lines show.
func sentinels() []error {
	return []error{
		idem.ErrAlreadyDone, idem.ErrInProgress, idem.ErrFingerprintMismatch, idem.ErrOutcomeUnknown, idem.ErrLeaseLost,
		idem.ErrMaxRun, idem.ErrNotRecorded, idem.ErrNotEncoded, idem.ErrTooLarge, idem.ErrRedacted, idem.ErrUnavailable,
		idem.ErrRecordedFailure, idem.ErrCorrupt, idem.ErrInvalidKey, idem.ErrInvalidOption, idem.ErrConflict, idem.ErrNotFound, errPlain,
	}
}

// result describes what a call returned.
func result(res idem.Result, err error) string {
	var parts []string
	if res.Value != nil || res.Replayed {
		parts = append(parts, fmt.Sprintf("%d bytes %.12q replayed %v recovered %v", len(res.Value), res.Value, res.Replayed, res.Recovered))
	}
	if err == nil {
		return strings.Join(append(parts, "nil"), " ")
	}
	for _, s := range sentinels() {
		if errors.Is(err, s) {
			parts = append(parts, "["+s.Error()+"]")
		}
	}
	var e *idem.Error
	if errors.As(err, &e) {
		parts = append(parts, fmt.Sprintf("code %s, %s, attempt %d, state %s", e.Code, e.Effect, e.Attempt, e.State))
	}
	var failed *idem.RecordedError
	if errors.As(err, &failed) {
		parts = append(parts, fmt.Sprintf("recorded %s %q", failed.Code, failed.Message))
	}
	if errors.As(err, new(coded)) {
		parts = append(parts, "revived")
	}
	return strings.Join(parts, " ")
}

// claimed describes what an operation is told.
func claimed(c *idem.Claim) string {
	return fmt.Sprintf("attempt %d, takeover %v, refs %v, key %.8s", c.Attempt(), c.Takeover(), c.Refs(), c.ProviderKey("acme"))
}

// look describes what is recorded, and whether the token went up or stayed.
func (w *world) look(key string) string {
	rec, err := w.b.Inspect(w.ctx, w.stored(key))
	if err != nil {
		return result(idem.Result{}, err)
	}
	before := w.tokens[key]
	w.tokens[key] = rec.Token
	token := "token fell"
	switch {
	case before == rec.Token:
		token = "token stayed"
	case before < rec.Token:
		token = "token rose"
	}
	o := &rec.Outcome
	var names []string
	for _, p := range rec.Providers {
		names = append(names, fmt.Sprintf("%s %v", p.Name, p.Window))
	}
	return fmt.Sprintf("%s held %v doubt %v attempt %d, %s, owner %v, print %q %v, providers %v, refs %v, "+
		"outcome %d bytes %.12q body %d codec %q code %q message %q failed %v recovered %v, revision %d, audit %q %q, "+
		"lease %v, ends %v, recorded %v", rec.State, rec.Held, rec.Doubt, rec.Attempt, token, rec.Owner != driver.Owner{},
		rec.Fingerprint.KeyID, rec.Fingerprint.String(), names, rec.Refs,
		len(o.Value), o.Value, o.Body, o.Codec, o.Code, o.Message, o.Failed, o.Recovered, rec.Revision, rec.Audit.By, rec.Audit.Why,
		rec.LeaseLeft > 0, rec.State.Completed() && rec.RetentionLeft > 0, !rec.RecordedAt.IsZero())
}
