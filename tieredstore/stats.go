package tieredstore

import "sync/atomic"

// Stats are the calls that a [Backend] has made of its tiers since [New].
type Stats struct {
	Fast    FastStats
	Archive ArchiveStats
}

// FastStats are the calls of the fast tier.
type FastStats struct {
	Gets    uint64 // reads of a copy
	Hits    uint64 // of these, those that found one that could be served
	Puts    uint64 // copies put
	Deletes uint64 // copies removed, for an edit
	// Failures are the calls among these that had no answer.
	Failures uint64
	// Skipped are the calls that were not made, because the tier had failed.
	Skipped uint64
}

// Calls is the number of calls that the fast tier has seen.
func (s FastStats) Calls() uint64 { return s.Gets + s.Puts + s.Deletes }

// ArchiveStats are the calls of the archive. Those made through an optional
// interface of its own (List, Purge, Watch, Check) are not counted.
type ArchiveStats struct {
	Claims    uint64
	Renews    uint64
	Annotates uint64
	Completes uint64
	Releases  uint64
	Inspects  uint64 // also those that read a completed record back, for its copy
	Edits     uint64 // Redact and Reset
}

// Calls is the number of calls that the archive has seen.
func (s ArchiveStats) Calls() uint64 {
	return s.Claims + s.Renews + s.Annotates + s.Completes + s.Releases + s.Inspects + s.Edits
}

// Stats returns a snapshot. Each number is exact; while calls are running, they
// may be of different instants. In nested tiers each Backend counts for its own
// two.
func (b *Backend) Stats() Stats {
	c := &b.counts
	return Stats{
		Fast: FastStats{
			Gets: c.gets.Load(), Hits: c.hits.Load(), Puts: c.puts.Load(), Deletes: c.deletes.Load(),
			Failures: c.failures.Load(), Skipped: c.skipped.Load(),
		},
		Archive: ArchiveStats{
			Claims: c.claims.Load(), Renews: c.renews.Load(), Annotates: c.annotates.Load(), Completes: c.completes.Load(),
			Releases: c.releases.Load(), Inspects: c.inspects.Load(), Edits: c.edits.Load(),
		},
	}
}

type counts struct {
	gets, hits, puts, deletes, failures, skipped                    atomic.Uint64
	claims, renews, annotates, completes, releases, inspects, edits atomic.Uint64
}
