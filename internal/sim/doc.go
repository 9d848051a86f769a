// Package sim runs the whole of idem, with many processes, callers and faults, in
// one bubble of testing/synctest, so that everything that happens is decided by
// one number.
//
// # The controller
//
// A bubble alone does not replay: its goroutines run in any order. So every call
// to the backend, every step of an operation and every recovery parks. The
// scheduler waits until all goroutines are blocked, sorts what is parked by names
// that are the same in every run, and by a choice of the seed gives one of them
// its word: go on, or meet a fault. Or it lets time pass, until the next thing
// happens; or it cancels a caller, kills or closes a process, purges, delivers a
// hint, or a late copy of an older call. Each step has an instant of its own, and
// the engine's durations are whole microseconds, so that no two timers that
// different steps started go off at one instant. Two things are kept out of the
// bubble's hands besides: the pauses of the engine come from a source in the
// context (package draw), and hints are delivered at steps of their own. Owners
// are random; nothing is ordered or printed by them.
//
// A seed first draws its own world: how many processes, keys and deliveries,
// which options from their valid edges, which policies, and its own rate of each
// fault, zero for a third of them.
//
// # The oracles
//
// None of them asks the engine, and each is written down a second time.
//
//   - The ledger is the provider: it appends an effect for each charge, unless it
//     remembers the key.
//   - The model says what the contract of package driver says, call by call. Every
//     answer of the backend, and every record through an untouched Inspect after
//     every step, is compared with it.
//   - The table of states says which settling call follows which end of an
//     operation, and the table of errors which error may be returned when.
//
// # The properties
//
//   - A1, single effect. Of a key of the family "strict" (every delivery holds or
//     recovers; the provider forgets) there is one effect in each epoch, whatever
//     dies, hangs, lies in the network or ignores its context; an epoch ends with
//     the retention and with Reset. Of "dedup" and "mixed" (any policy; the
//     provider remembers for ever) there is one effect at all. Of "windowed"
//     (rerun or recovery, declared window, operations that look at their context
//     before they send; the provider forgets after the window) there is one in each
//     epoch, unless FailOpen ran. Recoveries and operators tell the truth, or
//     nothing: "not executed" only when no run of the key is under way, and no
//     charge. Operations tell the truth too: NotApplied only if nothing was sent.
//     Further: an operation runs once in a call, knows whether an attempt before it
//     is in doubt, never runs in doubt under Hold or with a recovery, never under
//     an unheld claim except by FailOpen, and no recovery runs without a claim.
//   - A2, one owner; A3, tokens rise, also over purge and Reset; A4, a call with an
//     old (owner, token) leaves the record as it is; A5, an outcome is immutable:
//     by the model, for every call of every kind of process and every late copy.
//   - A6, a mismatch is inert, and is told in every state. A run without a claim is
//     excepted: it knows its own request only.
//   - A7, my own retry is me: a claim whose answer was lost is repeated by its
//     owner and answered as the first time; no owner is used twice.
//   - A8, errors tell the truth: each error returned is idem's or the operation's
//     own; its Effect and each sentinel that it matches agree with what happened; an
//     operation's error is never lost; the settling call is the one of the table of
//     states; nothing is written after the store has said that the lease is lost;
//     the final write does not end with the caller. An error that the operation
//     itself returned speaks for itself, and what matches only because the caller's
//     context ended with it is the caller's.
//   - A9, trust window: as long as Remaining is positive, or the context of an
//     operation or a recovery is alive, the record is its own and its lease has not
//     ended; so every context has ended before the next token is granted. It ends
//     with MaxRun (not for the three steps, which are the caller's) and with the
//     provider's window. A run without a claim has no lease.
//   - A10, unreadable is never absent: after ErrCorrupt, or an answer that this
//     release does not know, nothing runs.
//   - A11, nothing is forgotten early: by the model; and the retention that is sent
//     is the one that was asked for.
//   - A12, a replay is what was recorded, byte for byte, and what was recorded is
//     what the operation, and so the ledger, said. Callers write over the values
//     that they get, and operations over their keys and requests.
//   - A13, no leak: nothing but the final write is sent after a call has returned,
//     and that for no longer than RecordTimeout; Close returns; no goroutine is left
//     when the bubble ends (the bubble itself panics).
//   - E1, E2, E3, judged when the faults have stopped: see finish.
//
// # Using it
//
//	go test ./internal/sim -sim.seeds=60000
//	go test ./internal/sim -sim.for=6h -sim.first=1000000
//	go test ./internal/sim -sim.trace=4711 -v
//
// Seeds that failed once are kept in testdata/failing-seeds.txt and run first.
package sim
