package driver

import (
	"errors"
	"fmt"
)

// Sentinels. An error that matches one of them says that the call changed
// nothing (I8); a backend may wrap them. Any other error leaves the effect of
// the call unknown.
var (
	// ErrLeaseLost: the (Owner, Token) is not, or no longer, the record's
	// current claim (I3, I6).
	ErrLeaseLost = errors.New("lease lost")
	// ErrConflict: the record is not in the state, or has not the token, that
	// the caller expects.
	ErrConflict = errors.New("record changed")
	// ErrNotFound: no record, or its retention has ended.
	ErrNotFound = errors.New("no record")
	// ErrCorrupt: the record cannot be read (I12).
	ErrCorrupt = errors.New("record unreadable")
	// ErrUnavailable: the store refused the call, certainly without applying it
	// (it is full, read-only, not connected).
	ErrUnavailable = errors.New("store unavailable")
	// ErrInvalidKey: the backend cannot store this key.
	ErrInvalidKey = errors.New("invalid key")
)

// NoEffect reports whether err says for certain that the call changed nothing:
// whether it matches one of this package's sentinels (I8).
func NoEffect(err error) bool {
	for _, s := range [...]error{ErrLeaseLost, ErrConflict, ErrNotFound, ErrCorrupt, ErrUnavailable, ErrInvalidKey} {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// Severity of a [Finding].
type Severity uint8

const (
	// Warn: works, but a guarantee is weaker than the reader may think.
	Warn Severity = iota + 1
	// Refuse: the Store refuses to run operations on this backend.
	Refuse
)

// String returns the severity in lower case.
func (s Severity) String() string {
	switch s {
	case Warn:
		return "warning"
	case Refuse:
		return "refused"
	}
	return "no severity"
}

// Finding is one thing that [Checker] found wrong, as an error. Code is stable.
type Finding struct {
	Severity Severity
	Code     string
	Remedy   string
}

// Error returns severity, code and remedy.
func (f *Finding) Error() string {
	return fmt.Sprintf("%s: %s: %s", f.Severity, f.Code, f.Remedy)
}

// OnlyWarnings reports whether every error joined in err is a [*Finding] with
// severity Warn. It is true for nil.
func OnlyWarnings(err error) bool {
	if err == nil {
		return true
	}
	if f, ok := err.(*Finding); ok { //nolint:errorlint // the tree is walked here, node by node
		return f.Severity == Warn
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here, node by node
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			if !OnlyWarnings(sub) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	case interface{ Unwrap() error }:
		return e.Unwrap() != nil && OnlyWarnings(e.Unwrap())
	}
	return false
}
