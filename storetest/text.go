package storetest

// The sentences of the contract that rules cite, word for word from package
// driver: a test compares them. A failure prints them.
const (
	i1 = "I1. At most one unexpired claim per key."

	i2 = "I2. Tokens of a key strictly increase: across takeover, release, resolve, purge, and a restart of the backend"

	i2Zero = "A token is never 0."

	i3 = "I3. Renew, Annotate, Complete and Release act only for the current (Owner, Token), until somebody takes over or resolves, also after the lease's end; otherwise they return [ErrLeaseLost] and have no effect."

	zeroOwner = "The zero Owner never holds one."

	i3Zero = "Release and Complete with Token 0 act for whatever token the Owner holds."

	i4 = "I4. A completed outcome is immutable, byte for byte, until its retention ends."

	i5 = "I5. A different fingerprint never changes a record, not even an expired claim, and is reported in every state, before anything else about the record is."

	i5None = "No fingerprint on either side compares equal; the first claim that carries one and acquires the key sets it."

	i5Zero = "A zero fingerprint is none, stored or among a request's."

	i6 = "I6. Complete is idempotent for the same Ref and the same outcome, Release for the same Ref, Claim for the same Owner while that claim stands: a lost acknowledgement, or the client library's own retry, ends in success and changes nothing a second time."

	i6Careful = "Where a repeated Release says Held or Doubt and the first did not, the more careful end stands."

	i6Lease = "A repeated Claim does not extend the lease."

	i6Late = "A copy of a claim that arrives after its owner settled the record is refused with [ErrLeaseLost] (or answered with the outcome): the record remembers its last owner."

	i7 = "I7. The backend's clock alone decides expiry. Durations cross the seam; timestamps are for display."

	i8 = "I8. After any error that does not match one of this package's sentinels the effect of the call is unknown: the caller repeats it with the same owner, or looks, before it concludes anything. An error that matches a sentinel says that the call changed nothing."

	i8Release = "A claim that was given up is released by its owner, with Token 0."

	i9 = "I9. Keys are independent."

	i10 = "I10. When a call returns nil its effect is as durable as the backend's documentation says"

	i11 = "I11. Whatever decides a claim, a renewal, a completion or a release is one atomic step at the store that restates all it relies on. A read before it may be a shortcut (a replay found), never a decision."

	i12 = "I12. What cannot be read (a missing field, an unknown format version, an unknown key id, garbage) is reported as [ErrCorrupt], and the record is left as it is. It is never taken for absent, and a missing or zero deadline never means \"expired\"."

	i13 = "I13. Retention counts from completion, on the backend's clock; reading does not extend it; what has expired but is not yet purged behaves as absent."

	i13Kept = "A record without an outcome (claimed, released, unknown) is kept at least as long, counted from its last change."

	i13Unknown = "Records whose outcome is unknown are not purged unless the caller asks for it"

	i13Days = "kept at least 90 days where the server expires by itself: a crash must not turn into \"never seen\" because time ran out."
)

const (
	claimOrder = "Tests are made in this order, and the first that applies answers:"
	claim2     = "2. No record, or its retention has ended (I13): acquired if p.Take has TakeAbsent, else ErrNotFound."
	claim3     = "3. Another fingerprint: Mismatch (I5). A stored fingerprint whose key id is in none of p.Fingerprints: ErrCorrupt (I12)."
	claim4     = "4. An outcome is recorded: Completed, with it."
	claim5     = "5. The current claim is p.Owner's: TakenOver if the record is in doubt, else Acquired; nothing changes (I6). The last claim was p.Owner's and is settled: ErrLeaseLost (I6)."
	claim6     = "6. p.ExpectToken is set and is not the record's token: ErrConflict."
	claim7     = "7. An unexpired claim: InProgress (I1)."
	claim8     = "8. The record may be taken according to p.Take and p.MinWindow: it gets p.Owner, a higher token (I2), the next attempt number and the lease. TakenOver if it is now in doubt, else Acquired."
	claim9     = "9. Released and not in doubt: ErrConflict. Otherwise Held."
	claimWait  = "A backend that cannot answer within p.LockWait because another transaction holds the record returns InProgress, with LeaseLeft 0 and whatever else of the record it knows."
	claimTake  = "An unexpired claim can never be taken, and a completed record neither."
	claimLease = "Lease is how long the claim is exclusive, counted by the backend from the instant at which it acquires. At least one millisecond."
	claimRec   = "ClaimResult is what [Backend.Claim] found, and the record after the call."

	claimProviders = "A name that the record does not have yet is added when the claim is acquired, and its window begins then; one it has keeps its window and its beginning."
	claimAnew      = "When the record was released and not in doubt, no provider has seen the key, and every window begins anew with the claim."
	claimWindow    = "MinWindow, if positive, forbids taking a record in doubt (released in doubt, or unknown) when less than this is left of some window among its Providers and p.Providers. It does not apply to a record that is not in doubt."
)

const (
	textRenew    = "Renew makes the lease end p.Lease from now, also if it has ended (I3)."
	textAnnotate = "Annotate adds to a claim what later attempts must know. It does not touch the lease. Adding what is already there changes nothing."
	textInspect  = "Inspect returns the record as it stands, without changing it; ErrNotFound if there is none or its retention has ended, ErrCorrupt if it cannot be read."

	textRefsAdded   = "Refs are added to the record's, in order, without those it has."
	textNotExecuted = "NotExecuted says that no earlier attempt had its effect: Doubt and Held are cleared, and the window of each provider begins anew, now."
	textLateCopy    = "On a record that is neither in doubt nor held it changes nothing, so that a late copy cannot move a window (I6)."
	textAuditStored = "Audit, if set, is stored with the time of the backend."
	textAuditKept   = "Audit tells of the last change made by an operator."

	textReleaseZero        = "The zero value releases the record and keeps its Doubt and Held flags as they are: a record with Held set becomes unknown and held again, any other becomes released."
	textReleaseHeld        = "Held leaves the record unknown and held, and in doubt."
	textReleaseDoubt       = "Doubt says that this attempt may have had its effect."
	textReleaseNotExecuted = "NotExecuted says that neither this nor any earlier attempt had its effect: Doubt and Held are cleared, providers and their windows forgotten."

	textDoubtFlag = "Doubt: some earlier attempt may have had its effect. Set by a Claim that takes over a claim whose lease has ended, and by Release with Doubt or Held. Kept through later claims and releases. Cleared only by NotExecuted (in [AnnotateParams] or [ReleaseParams]) and by [Editor].Reset."
	textHeldFlag  = "Held: only a caller who may take held records ([TakeHeld]) may claim it, whatever else it may take. Set by Release with Held. A claim that took a held record leaves the flag set, so that the record is held again when that claim is released or its lease ends; NotExecuted and Complete clear it."

	textAttempts = "Attempt counts the claims of this record, from 1."
	textSnapshot = "Record is a snapshot of what a backend keeps for a key."
	textClocks   = "ClaimAge is how long ago the last claim was made."

	textSafe     = "Every method is safe for concurrent use by many goroutines and many processes."
	textContexts = "Every method returns soon after its context has ended; what the server then does with the call is unknown (I8)."
	textParams   = "A backend must not keep the parameter structs, or anything they point to, after it returned"
	textValueOwn = "the caller must not change what a result points to, except Outcome.Value in the result of a Claim: that is the caller's own, and a change of it must change no record."
	textValues   = "Value of a success, byte for byte."
	textInvalid  = "ErrInvalidKey: the backend cannot store this key."
	textErrors   = "Texts of errors contain no key, no value and no credential of the server"
	textUnwraps  = "[As] finds optional interfaces through it."
)

const (
	textRedact       = "Redact removes the body of a completed record and leaves a tombstone: it stays completed, with the same token and retention and a higher revision. The value, message and references are gone, and Body is BodyRedacted, of a failure too; a failure keeps its Code. ErrNotFound without a record, ErrConflict if the token differs or no outcome is recorded."
	textRedactTwice  = "Redacting what is redacted changes nothing."
	textReset        = "Reset lets the key run again: it becomes Released, not in doubt and not held, with a higher token and no outcome; attempts go on counting, the fingerprint and the references stay. The owner is forgotten (zero), so an old claim is fenced. ErrNotFound without a record, ErrConflict if the token differs or an unexpired claim stands."
	textEditAudit    = "Audit is stored with the time of the backend."
	textList         = "Records come in an order that stays the same from page to page, without their outcome's Value."
	textListPage     = "Limit is the page's size; 0 is 100."
	textListNext     = "Next continues after this page; \"\" at the end."
	textListPrefix   = "Prefix of the key."
	textListStates   = "States to list; empty lists all."
	textPurge        = "Purger removes records whose retention has ended, in bounded steps that do not block claims."
	textPurgeBatch   = "Batch is the most records one step removes; 0 is the backend's default."
	textPurgeUnknown = "UnknownAfter, if positive, also removes records whose outcome has been unknown, without a change, for longer than this (I13)."
	textPurgeSum     = "Progress, if set, is called after each step that removed something, with the sum so far"
	textPurgeRate    = "Rate is the most records removed a second, taken over some steps; 0 is no limit."
	textPurgeBounds  = "A negative Batch, Rate or UnknownAfter is an error, and nothing is removed."
	textPurgeResult  = "It is valid beside an error too."
	textWatch        = "Watch returns a channel that receives, or is closed, after the key may have been settled."
	textWatchEnds    = "The watch ends with ctx, which the caller must end."
	textRetainer     = "Retainer tells a backend's own retention."
	reuserInto       = "ClaimInto is Claim, with the answer in *into, all of which it writes."
	reuserNew        = "What into.Record points to is new, as in a result of Claim, and the caller may keep it."
	reuserKeeps      = "When ClaimInto has returned, nothing may refer to ctx, p or into any more"
	reuserSelf       = "Self returns the backend that ClaimInto claims from."
	textChecker      = "It returns its findings joined (each a [*Finding]), nil if there are none, or any other error if it could not look."
)

const (
	cacheHolds  = "Cache is a fast tier: it holds copies of completed records only, may forget any of them at any time, and is never the place where a claim is decided."
	cacheGet    = "Get returns the copy, or ErrNotFound. Anything unreadable is ErrNotFound: the archive knows better."
	cachePut    = "Put stores the copy for p.TTL, unless one that is newer by (Token, Revision), or a marker of [Cache.Delete], is there."
	cacheTTL    = "TTL is how long the copy may be served. Not positive: nothing is put."
	cacheDelete = "Delete removes the copy and refuses every Put for the key for the given time."
)
