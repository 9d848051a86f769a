// Package driver is the contract between idem and the systems that store its
// records. Users of idem never call it; authors of a backend implement it, and
// need to read nothing else.
//
// A backend keeps one record per key and changes it in six atomic steps: see
// [Backend]. Everything clever (retries, renewals, waiting, policies) is in the
// Store of package idem, so that a backend stays small. Growth arrives as new
// fields of the parameter structs or as small optional interfaces, each with
// its fallback written beside it; the six methods stay.
//
// # The record
//
//	(none) --Claim--> Claimed --Complete--> Succeeded | Failed
//	                  Claimed --Release---> Released --Claim--> Claimed (attempt+1, token up)
//	                  Claimed --lease ends--> Unknown             (nobody writes that down)
//	                  Claimed --Release{Held}--> Unknown, held
//	Unknown --Claim--> Claimed, in doubt (attempt+1, token up)
//
// Two flags travel with the record:
//
//   - Doubt: some earlier attempt may have had its effect. Set by a Claim that
//     takes over a claim whose lease has ended, and by Release with Doubt or
//     Held. Kept through later claims and releases. Cleared only by NotExecuted
//     (in [AnnotateParams] or [ReleaseParams]) and by [Editor].Reset.
//   - Held: only a caller who may take held records ([TakeHeld]) may claim it,
//     whatever else it may take. Set by Release with Held. A claim that took a
//     held record leaves the flag set, so that the record is held again when
//     that claim is released or its lease ends; NotExecuted and Complete clear it.
//
// # Invariants
//
// Cited by number in tests, in comments and in failure messages.
//
// I1. At most one unexpired claim per key.
//
// I2. Tokens of a key strictly increase: across takeover, release, resolve,
// purge, and a restart of the backend; across failover and restore provided
// that the new server's clock is not behind the last token issued. A token is
// never 0.
//
// I3. Renew, Annotate, Complete and Release act only for the current (Owner,
// Token), until somebody takes over or resolves, also after the lease's end;
// otherwise they return [ErrLeaseLost] and have no effect. Release and Complete
// with Token 0 act for whatever token the Owner holds.
//
// I4. A completed outcome is immutable, byte for byte, until its retention
// ends. [Editor] alone may touch it, by compare-and-set on the token, with who
// and why.
//
// I5. A different fingerprint never changes a record, not even an expired
// claim, and is reported in every state, before anything else about the record
// is. Fingerprints are compared in constant time. No fingerprint on either side
// compares equal; the first claim that carries one and acquires the key sets it.
// A zero fingerprint is none, stored or among a request's.
// [Fingerprint.Match] and [ClaimParams.Print] keep these rules.
//
// I6. Complete is idempotent for the same Ref and the same outcome, Release
// for the same Ref, Claim for the same Owner while that claim stands: a lost
// acknowledgement, or the client library's own retry, ends in success and
// changes nothing a second time. Where a repeated Release says Held or Doubt
// and the first did not, the more careful end stands. A repeated Claim does
// not extend the lease. A copy of a claim that arrives after its owner settled
// the record is refused with [ErrLeaseLost] (or answered with the outcome):
// the record remembers its last owner.
//
// I7. The backend's clock alone decides expiry. Durations cross the seam;
// timestamps are for display.
//
// I8. After any error that does not match one of this package's sentinels the
// effect of the call is unknown: the caller repeats it with the same owner, or
// looks, before it concludes anything. An error that matches a sentinel says
// that the call changed nothing. A claim that was given up is released by its
// owner, with Token 0.
//
// I9. Keys are independent.
//
// I10. When a call returns nil its effect is as durable as the backend's
// documentation says; each backend says it.
//
// I11. Whatever decides a claim, a renewal, a completion or a release is one
// atomic step at the store that restates all it relies on. A read before it may
// be a shortcut (a replay found), never a decision.
//
// I12. What cannot be read (a missing field, an unknown format version, an
// unknown key id, garbage) is reported as [ErrCorrupt], and the record is left
// as it is. It is never taken for absent, and a missing or zero deadline never
// means "expired".
//
// I13. Retention counts from completion, on the backend's clock; reading does
// not extend it; what has expired but is not yet purged behaves as absent. A
// record without an outcome (claimed, released, unknown) is kept at least as
// long, counted from its last change. Records whose outcome is unknown are not
// purged unless the caller asks for it, and kept at least 90 days where the
// server expires by itself: a crash must not turn into "never seen" because
// time ran out.
//
// # What is not required
//
// Nothing relates two keys (I9): no transactions across keys, no order among
// them, no consistent listing. A backend need not interpret outcomes, renew
// anything by itself, or keep connections alive. It need not retry: the Store
// does, under I8.
//
// # Contexts and concurrency
//
// Every method is safe for concurrent use by many goroutines and many
// processes. Every method returns soon after its context has ended; what the
// server then does with the call is unknown (I8). A backend must not keep the
// parameter structs, or anything they point to, after it returned, and the
// caller must not change what a result points to, except Outcome.Value in the
// result of a Claim: that is the caller's own, and a change of it must change no
// record.
//
// # Errors
//
// Texts of errors contain no key, no value and no credential of the server: the
// Store adds the key, as a digest if its user asks for that.
//
// # Wrappers
//
// A backend that wraps another one has a method Unwrap() Backend. [As] finds
// optional interfaces through it. A wrapper that must see a call of an optional
// interface implements that interface itself.
package driver
