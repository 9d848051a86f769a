package faultstore

import (
	"bytes"
	"slices"

	"github.com/idem-go/idem/driver"
)

// Parameters belong to the caller as soon as a call returned, so that the log
// and Replay need copies that share nothing with them.

// clonePlain is for parameters that point to nothing.
func clonePlain[P driver.RenewParams | driver.EditParams](p *P) *P {
	c := *p
	return &c
}

func cloneClaim(p *driver.ClaimParams) *driver.ClaimParams {
	c := *p
	c.Fingerprints = slices.Clone(p.Fingerprints)
	c.Providers = slices.Clone(p.Providers)
	return &c
}

func cloneAnnotate(p *driver.AnnotateParams) *driver.AnnotateParams {
	c := *p
	c.Refs = slices.Clone(p.Refs)
	c.Audit = cloneAudit(p.Audit)
	return &c
}

func cloneComplete(p *driver.CompleteParams) *driver.CompleteParams {
	c := *p
	c.Outcome.Value = bytes.Clone(p.Outcome.Value)
	c.Audit = cloneAudit(p.Audit)
	return &c
}

func cloneRelease(p *driver.ReleaseParams) *driver.ReleaseParams {
	c := *p
	c.Audit = cloneAudit(p.Audit)
	return &c
}

func cloneAudit(a *driver.Audit) *driver.Audit {
	if a == nil {
		return nil
	}
	c := *a
	return &c
}
