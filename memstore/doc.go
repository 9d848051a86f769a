// Package memstore keeps idem's records in memory: the embedded default, the
// backend for tests, and, as [Cache], the fast tier inside a process.
//
//	store, err := idem.New(memstore.New(nil), nil)
//
// It uses the standard library only and starts no goroutine and no timer of its
// own, so that it works inside a testing/synctest bubble and leaves nothing
// behind. It is also the reference implementation of package driver: where
// another backend answers otherwise, one of the two has a fault.
//
// # What it guarantees
//
// All invariants of package driver, among the goroutines of one process.
//
//   - Consistency: each step is atomic and seen by every call that begins after
//     it returned.
//   - Durability (I10): none beyond the process. When a call returns nil its
//     effect is visible in this process, and gone with it.
//   - Clock (I7): the monotonic clock of the process. Setting the computer's
//     clock moves no lease and no retention.
//   - Tokens (I2) come from one counter per Backend. It starts at the wall clock
//     in microseconds, so that tokens go on rising when the process starts anew,
//     provided that the clock was not set back and that fewer than a million
//     claims were acquired in each second on average.
//   - Keys: any non-empty string.
//
// # What it does not
//
// Two processes do not share a Backend, and neither do two calls of [New]. A
// process that ends forgets which operations ran: choose memstore where the
// effect ends with the process too, or in tests.
//
// # Memory
//
// A [Backend] never evicts: a forgotten record is an operation that may run
// twice. When Options.MaxBytes is used up it refuses keys it does not know
// ([driver.ErrUnavailable]), and goes on serving those it does. Records whose
// retention has ended leave little by little, as new keys arrive, and all at
// once with [Backend.Purge]. Records that are claimed, unknown or held never
// leave by themselves (I13).
//
// A [Cache] holds copies, which the archive behind it can give again. It evicts
// what was not used for longest.
package memstore
