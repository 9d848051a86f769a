package sim

import (
	"cmp"
	"context"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// item is a goroutine that waits for the scheduler's word: a call to the
// backend before it is sent or before its reply is handed over, an operation
// between two of its steps, or a recovery before its verdict.
type item struct {
	id   itemID
	e    *exec
	p    *proc
	ctx  context.Context //nolint:containedctx // of the call or the operation; the scheduler looks whether it has ended
	call *call           // nil unless it is a call to the backend
	run  *run            // nil unless it is an operation
	// resume receives one word each time the item is parked.
	resume chan word
	forget func() bool // ends the watch over ctx
}

// itemID names an item, the same in every replay of a seed. Owners are random,
// so that it has their ordinal among the owners of one delivery instead.
type itemID struct {
	exec   int
	method method
	origin origin
	owner  int
	nth    int
}

func (id itemID) compare(o itemID) int {
	return cmp.Or(
		cmp.Compare(id.exec, o.exec), cmp.Compare(id.method, o.method), cmp.Compare(id.origin, o.origin),
		cmp.Compare(id.owner, o.owner), cmp.Compare(id.nth, o.nth))
}

func (id itemID) String() string {
	from := ""
	if id.origin == fromOperation {
		from = "op "
	}
	return fmt.Sprintf("e%d %s%s#%d", id.exec, from, id.method, id.nth)
}

// origin tells a call that an operation makes from one that the engine makes.
type origin uint8

const (
	fromEngine origin = iota
	fromOperation
)

// method is what an item waits in.
type method uint8

const (
	mStep method = iota // of an operation, of a recovery, or of a caller's own program
	mClaim
	mRenew
	mAnnotate
	mComplete
	mRelease
	mInspect
	mWatch
	mRedact
	mReset
	mCheck
	methods
)

func (m method) String() string {
	return [methods]string{
		"step", "Claim", "Renew", "Annotate", "Complete", "Release", "Inspect", "Watch", "Redact", "Reset", "Check",
	}[m]
}

// word is what the scheduler tells a parked item.
type word struct {
	// send the call this many times.
	send int
	// stay parks the item again, with the reply in hand.
	stay bool
	// err is returned in the place of the reply.
	err error
	// garble makes the reply of a Claim unreadable.
	garble int
	// die ends an operation at once: its process is dead.
	die bool
}

// call is one call to the backend.
type call struct {
	method method
	e      *exec
	key    *key
	ref    driver.Ref
	sent   int // how often it was applied
	reply  reply

	claim    *driver.ClaimParams
	renew    driver.RenewParams
	annotate driver.AnnotateParams
	complete driver.CompleteParams
	value    []byte // the caller's own bytes of complete
	release  driver.ReleaseParams
	edit     driver.EditParams
}

// reply is what the backend answered.
type reply struct {
	claim  *driver.ClaimResult
	record *driver.Record
	hints  chan struct{}
	err    error
}
