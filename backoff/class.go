package backoff

// Class is what the failure of a call means for the next one. The zero value
// means "not classified"; no function of this package returns it for an error
// that is not nil, except [Marked] beside false.
type Class uint8

const (
	// Permanent: the same call would fail again. Stop.
	Permanent Class = iota + 1
	// Transient: not applied, and likely to succeed soon. Try again.
	Transient
	// Throttled: not applied, because the other side is overloaded or limits us.
	// Try again, but later than after a Transient failure; a server hint (see
	// [Hint]) is to be expected.
	Throttled
	// Ambiguous: perhaps applied. Try again only where a repetition cannot
	// double the effect, which is what an idempotency key is for.
	Ambiguous
)

// String returns the class in lower case.
func (c Class) String() string {
	switch c {
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	case Throttled:
		return "throttled"
	case Ambiguous:
		return "ambiguous"
	}
	return "unclassified"
}

// care orders the classes by what is lost when the verdict is wrong: a repeated
// effect weighs more than a useless retry, a useless retry more than a short wait.
func (c Class) care() int {
	switch c {
	case Ambiguous:
		return 4
	case Permanent:
		return 3
	case Throttled:
		return 2
	case Transient:
		return 1
	}
	return 0
}

// moreCareful returns the one of two classes that asks for more care.
func moreCareful(a, b Class) Class {
	if b.care() > a.care() {
		return b
	}
	return a
}

// notApplied reports whether the class says that the call had no effect.
func (c Class) notApplied() bool { return c == Transient || c == Throttled }
