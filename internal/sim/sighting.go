package sim

import (
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

// sightings notes what the deliveries under way may truthfully be told.
func (w *world) sightings(now time.Time) {
	for _, e := range w.execs {
		if e.finished && !w.isNew(e) {
			continue
		}
		k, m := e.key, &e.key.model
		e.saw.absent = e.saw.absent || m.phase == absent
		e.saw.unknown = e.saw.unknown || m.unknown(now) || m.phase == released && m.doubt
		e.saw.live = e.saw.live || m.unexpired(now) && !e.owns(m.owner)
		e.saw.mismatch = e.saw.mismatch || e.s.differs(k.request)
		w.seeBeside(e)
		e.saw.closed = e.saw.closed || !e.p.closed.IsZero()
		if _, known := m.compare(e.prints()); !known {
			e.saw.foreignKey = true
		}
	}
}

// prints have the ids of the keys with which the delivery's fingerprint is made,
// and a digest that is not zero: with "" for its id that would be none.
func (e *exec) prints() []driver.Fingerprint {
	if e.s.request == noRequest || e.s.kind >= kResolve {
		return nil
	}
	keys := e.p.plan.opts.FingerprintKeys
	prints := make([]driver.Fingerprint, max(1, len(keys)))
	for i := range prints {
		prints[i].Sum[0] = 1
	}
	for i, k := range keys {
		prints[i].KeyID = k.ID
	}
	return prints
}

// isNew reports whether e returned in this very step.
func (w *world) isNew(e *exec) bool {
	return slices.Contains(w.returned, e)
}

// differs reports whether a delivery stands for another request.
func (s *script) differs(p request) bool {
	return p != noRequest && s.request != noRequest && p != s.request
}

// seeBeside: other deliveries of the same process run the key, with or without a
// claim.
func (w *world) seeBeside(e *exec) {
	for _, o := range w.execs {
		if o != e && o.p == e.p && o.key == e.key && !o.finished && (o.run != nil || o.recovered != nil) {
			e.saw.live = true
			e.saw.mismatch = e.saw.mismatch || e.s.differs(o.s.request)
			e.saw.company = e.saw.company || !e.s.differs(o.s.request)
		}
	}
}
