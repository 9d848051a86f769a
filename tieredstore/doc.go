// Package tieredstore puts a fast tier in front of an archive: by default seven
// days of outcomes in, say, Redis before ninety days in Postgres.
//
//	fast, err := redisstore.NewCache(client, nil)
//	...
//	archive, err := pgstore.New(pool, nil)
//	...
//	tiers, err := tieredstore.New(fast, archive, nil)
//	...
//	store, err := idem.New(tiers, &idem.Options{Namespace: "billing"})
//
// A [Backend] is itself a [driver.Backend], so that tiers nest: memory before
// Redis before Postgres is New(memory, inner, …) over inner, err := New(redis,
// postgres, …).
//
// # Who decides
//
// The archive alone. Every claim, renewal, completion and release is one step of
// the archive, and nothing is ever claimed in the fast tier. The fast tier holds
// copies of completed records, which do not change: so it can answer a duplicate,
// and can make nobody an owner.
//
//	a duplicate, its copy in the fast tier    one read there, and nothing else
//	a duplicate, no copy there                that read, the archive's answer, and the copy is put back
//	a first execution                         that read, claim and completion in the archive; then the
//	                                          record is read back and its copy put
//
// # What the fast tier's failures cost
//
// Time, and never a guarantee. One that is down, slow, has evicted or lost its
// copies, or holds what cannot be read, has no copy: the archive answers. Each of
// its calls is bounded by Options.FastTimeout. After three failures in a row it
// is left alone, which costs nothing per call, except that once a second one call
// tries it again.
//
// When the archive does not answer, duplicates whose copy is in the fast tier are
// still answered, and nothing else is: claims fail with what the archive's client
// says.
//
// # How long a copy is served
//
// For the smaller of Options.Window and the retention that is left, less the time
// since the read of the archive began that the copy comes from; by the fast
// tier's own clock (I7). So no copy outlives the record, and a key that leaves the
// window is answered by the archive, which still has it.
//
// # Redact and Reset
//
// Both leave a marker in the fast tier that refuses copies for
// Options.RefillBound, before and again after the archive is changed. A reader
// that took the old record from the archive puts nothing when half of RefillBound
// has passed since it began, so its copy meets the marker, or comes before it and
// is removed by it. A copy with a lower (token, revision) never replaces a higher
// one.
//
// When Redact or Reset returns nil, no call that begins later is answered with the
// old outcome by this fast tier. A fast tier that other processes have for
// themselves (in their memory) is not reached: there the old copy is served until
// it ends, at most for that tier's Window after the edit. Choose that Window
// accordingly; a minute is a good one. When the fast tier could not be reached,
// the error matches [ErrStale]: the archive is changed, and the call must be
// repeated when the fast tier answers again.
//
// A fast tier that is restored from an old copy of its own (a snapshot of Redis)
// holds completed outcomes, which are still right, and which end when they would
// have ended. Only a redaction or reset made since would be undone, until its copy
// ends: so empty a fast tier after restoring it, or do not persist it at all. The
// cache of redisstore needs neither: a server that has started anew, or was
// promoted, serves nothing that it was not given since (ADR 0064).
//
// [Backend.Inspect] always asks the archive. Changes made behind the tiers, in the
// archive itself, do not reach the fast tier before the copy ends.
package tieredstore
