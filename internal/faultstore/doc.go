// Package faultstore wraps a [driver.Backend] for tests: a [Hook] decides, call
// by call, what goes wrong.
//
// A call of a wrapped backend passes these points, and a [Fault] acts at them:
//
//	caller --Before--> send (Drop: never; Twice: two times) --After--> reply (Err instead)
//
// The faults that a network, a server and a client library can make of it:
//
//	error, not applied            Fail, or Fault{Drop: true, Err: err}
//	error, applied                Lose, or Fault{Err: err}
//	applied, late reply           Fault{After: Delay(d)}
//	applied twice                 Duplicate, or Fault{Twice: true}
//	delayed before the send       Fault{Before: Delay(d)}
//	paused until the context ends Fault{Before: PauseUntil(nil)}
//	paused, ignoring the context  Fault{Before: StallUntil(ch)}
//	context ends before the send  Fault{Before: Cut(cancel)}
//	context ends during the call  Fault{After: Cut(cancel)}
//	context ends after the reply  Fault{After: End(cancel)}
//	unknown error type            Fault{Err: Odd("text")}
//	late duplicate of an old call Store.Replay
//	given up, then applied late   Fault{Before: PauseUntil(nil)}, then Store.Replay
//
// Delays and pauses use timers and channels only, so that all of it works in a
// testing/synctest bubble. Nothing here starts a goroutine.
package faultstore
