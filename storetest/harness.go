package storetest

import (
	"testing"
	"time"

	"github.com/idem-go/idem/driver"
)

// Harness tells the suite how to reach the backend under test. Only New is
// required. What is left nil or false is not declared: the rules that need it
// are skipped, and say so.
//
// The functions are called from many subtests at the same time, each with the
// TB of its own subtest; they clean up with tb.Cleanup and fail with tb.Fatal.
type Harness struct {
	// New returns a fresh handle. Handles may share their data: every rule uses
	// keys in a random namespace of its own.
	New func(tb testing.TB) driver.Backend

	// Pair returns two independent handles on the same data: two clients, two
	// pools, two processes' worth of state. Nil is not declared, unless
	// Capabilities.InProcess says that one handle is all there can be.
	Pair func(tb testing.TB) (a, b driver.Backend)

	// Wrap runs the body of a subtest in a bubble, in which waiting takes no
	// time: synctest.Test, for a backend that reads the clock of its own process.
	// New, Pair and all the others are called inside it. Nil runs the body as it
	// is.
	Wrap func(t *testing.T, body func(t *testing.T))

	// Advance lets d pass on the backend's clock. Nil sleeps, which is right for
	// a real server and, in a bubble, takes no time.
	Advance func(tb testing.TB, d time.Duration)

	// Unit is the time in which the suite counts. A rule lets at most some tens
	// of units pass. Shorter is quicker but makes rules that watch a deadline
	// repeat themselves. The default is 100 ms, and 1 s with Wrap.
	Unit time.Duration

	// Rounds is how often a race is run. The default is 100, and 10 with
	// -short.
	Rounds int

	// Pause returns two handles on the same data, of which the first calls
	// between in each Claim, after the last read that precedes the decisive
	// write and before that write. Nil is not declared: then only chance can
	// find a claim that decides on what it has read.
	Pause func(tb testing.TB, between func()) (paused, other driver.Backend)

	// Corrupt damages the stored record of key in the given way. It returns
	// false if the backend's own storage cannot hold such a record (a NOT NULL
	// column). Nil is not declared.
	Corrupt func(tb testing.TB, b driver.Backend, key string, kind CorruptKind) bool

	// RawBytes returns what is stored for key, in any encoding that shows each
	// byte of the record, nil if nothing is. It leaves out what changes by
	// itself, like a remaining lifetime. With it, "the record is unchanged" is
	// tested on these bytes; without it on what Inspect tells.
	RawBytes func(tb testing.TB, b driver.Backend, key string) []byte

	// Restart restarts the server behind b and returns a handle on what
	// survived. No other rule runs meanwhile. Nil is not declared.
	Restart func(tb testing.TB, b driver.Backend) driver.Backend

	// Block makes another transaction hold the record of key until unblock is
	// called. Nil is not declared: a backend without such waits.
	Block func(tb testing.TB, b driver.Backend, key string) (unblock func())

	// Capabilities declares the optional interfaces, and what a backend is.
	Capabilities Capabilities
}

// Capabilities declares what a backend promises beyond the six methods. A rule
// compares it with what [driver.As], or for Reuser the Store, finds, in both
// directions: an interface that is implemented but not declared would go
// unchecked.
type Capabilities struct {
	Checker  bool
	Editor   bool
	Lister   bool
	Purger   bool
	Retainer bool
	// Reuser has every rule run a second time, over ClaimInto.
	Reuser  bool
	Watcher bool
	// InProcess says that the data lives in the handle, so that no second handle
	// on it can exist. Rules for two handles then use one twice.
	InProcess bool
}

// CorruptKind is a way in which a stored record can be unreadable (I12).
type CorruptKind uint8

const (
	// Truncated: the record's bytes end early.
	Truncated CorruptKind = iota + 1
	// UnknownState: a state that no release wrote.
	UnknownState
	// HigherFormat: the format version of a later release.
	HigherFormat
	// Empty: the key is there, without any content.
	Empty
	// WrongType: something else is stored under the key: a list, text in place
	// of a record.
	WrongType
	// MissingDeadline: a claimed record without the instant at which its lease
	// ends.
	MissingDeadline
	// ZeroDeadline: a claimed record whose lease ends at zero.
	ZeroDeadline
	// MissingOutcome: a completed record without an outcome.
	MissingOutcome
)

// String returns the kind in words.
func (k CorruptKind) String() string {
	switch k {
	case Truncated:
		return "truncated"
	case UnknownState:
		return "unknown state"
	case HigherFormat:
		return "higher format"
	case Empty:
		return "empty"
	case WrongType:
		return "wrong type"
	case MissingDeadline:
		return "missing deadline"
	case ZeroDeadline:
		return "zero deadline"
	case MissingOutcome:
		return "missing outcome"
	}
	return "no kind"
}

// Run checks the whole contract, one subtest for each rule. The subtests run in
// parallel; those that touch records they do not own (a purge, a restart) run
// alone, before them. The purge removes every unknown record that is older than a
// moment: give the suite a server, a schema or a prefix of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("storetest: Harness.New is required")
	}
	h.suite().each(t, rules(), report)
	if h.Capabilities.Reuser {
		t.Run("claims_into_memory_of_the_caller", func(t *testing.T) {
			s := h.suite()
			s.into = true
			s.each(t, rules(), report)
		})
	}
}

func (h *Harness) suite() *suite {
	s := &suite{wrap: h.Wrap, advance: h.Advance, unit: h.Unit, h: h, lacks: h.lacks}
	s.defaults()
	return s
}

// rules returns every rule of the suite for backends.
func rules() []rule {
	var all []rule
	for _, group := range [][]rule{
		claimRules(), matrixRules(), ownerRules(), fencingRules(), renewRules(), annotateRules(),
		outcomeRules(), releaseRules(), flagRules(), providerRules(), retentionRules(), tokenRules(),
		editRules(), resetRules(), listRules(), purgeRules(), watchRules(), optionalRules(), reuserRules(),
		keyRules(), valueRules(), contextRules(), errorRules(), concurrencyRules(), raceRules(), corruptRules(), walkRules(),
	} {
		all = append(all, group...)
	}
	return all
}

// need is a set of what a rule needs from the harness.
type need uint16

const (
	needPair need = 1 << iota
	needPause
	needCorrupt
	needRestart
	needBlock
	needChecker
	needEditor
	needLister
	needPurger
	needRetainer
	needReuser
	needWatcher
	needGarbage
)

// lacks says why a rule with these needs cannot run; "" if it can.
func (h *Harness) lacks(n need) string {
	c := h.Capabilities
	for _, x := range []struct {
		need need
		have bool
		why  string
	}{
		{needPair, h.Pair != nil || c.InProcess, "Pair, or Capabilities.InProcess: two clients of the same data were not set against each other"},
		{needPause, h.Pause != nil, "Pause: a claim that decides on what it has read (I11) can be found by chance only"},
		{needCorrupt, h.Corrupt != nil, "Corrupt: what becomes of unreadable records (I12) was not checked"},
		{needRestart, h.Restart != nil, "Restart: what survives a restart of the server (I2, I10) was not checked"},
		{needBlock, h.Block != nil, "Block: waits for other transactions (ClaimParams.LockWait) were not checked"},
		{needChecker, c.Checker, "Capabilities.Checker: the backend does not look at its server's settings"},
		{needEditor, c.Editor, "Capabilities.Editor: operators cannot redact or reset"},
		{needLister, c.Lister, "Capabilities.Lister: operators and recovery passes cannot list records"},
		{needPurger, c.Purger, "Capabilities.Purger: the server expires by itself"},
		{needRetainer, c.Retainer, "Capabilities.Retainer: the Store assumes a retention of 7 days"},
		{needReuser, c.Reuser, "Capabilities.Reuser: each claim is answered in new memory"},
		{needWatcher, c.Watcher, "Capabilities.Watcher: those who wait poll"},
	} {
		if n&x.need != 0 && !x.have {
			return "not declared: " + x.why
		}
	}
	return ""
}
