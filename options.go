package idem

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// Defaults and bounds of [Options].
const (
	defaultLease         = 30 * time.Second
	defaultMaxRun        = 15 * time.Minute
	defaultRetention     = 7 * 24 * time.Hour // of a backend that does not tell its own
	defaultRetryWindow   = 24 * time.Hour
	defaultStoreTimeout  = 2 * time.Second
	defaultRecordTimeout = 5 * time.Second
	defaultMaxValue      = 1 << 20
	defaultMaxWaiters    = 1024

	minLease        = time.Millisecond
	minRenewEvery   = 100 * time.Microsecond     // of one that is asked for
	maxDuration     = 100 * 365 * 24 * time.Hour // of every option; sums of them stay far from overflow
	maxNamespaceLen = 128
	maxProviderLen  = 128
)

// Options configure a [Store]. Nil and the zero value are valid. A zero field
// means its default; a negative one, and a duration over a hundred years, is
// [ErrInvalidOption].
type Options struct {
	// Namespace is part of every key's identity, for ever: two Stores with
	// different namespaces never share a record. At most 128 bytes, with the
	// same characters as a key. The default is "".
	Namespace string

	// Lease is how long a claim is exclusive without a renewal: how long a key
	// is blocked, at most, after its process died. At least 1 ms. The default
	// is 30 seconds.
	Lease time.Duration
	// RenewEvery is the time between two renewals of a running operation's
	// lease. Two must fit into a lease, and it is at least 100 µs: more often the
	// store would do nothing else. The default is a third of the lease.
	RenewEvery time.Duration
	// MaxRun bounds the renewals: after it the operation's context ends with
	// cause [ErrMaxRun] and the lease is left to run out, so that a hung
	// operation cannot hold a key for ever. The default is 15 minutes.
	MaxRun time.Duration

	// Retention is how long an outcome is kept, counted from the moment it is
	// recorded; not less than RetryWindow. The default is the backend's own.
	Retention time.Duration
	// RetryWindow is how long after the first call a retry or a redelivery may
	// still arrive. It only guards Retention. The default is 24 hours.
	RetryWindow time.Duration

	// OnUnknown says what happens to a key when an earlier attempt ended
	// without telling whether it had its effect. The default is [Rerun].
	OnUnknown UnknownPolicy

	// StoreTimeout bounds each attempt to ask the store. The default is 2
	// seconds.
	StoreTimeout time.Duration
	// RecordTimeout bounds the final write of an outcome with its retries. It
	// runs also when the caller's context has ended. The default is 5 seconds.
	RecordTimeout time.Duration

	// FailOpen runs an operation without a claim when the store is unavailable
	// before the run: availability for the price of a possible double effect.
	// Not when the caller's context has ended, under Hold, or with WithRecover.
	// The default is false.
	FailOpen bool

	// Codec encodes the values of [Do]. The default is JSON. Its ID is stored with
	// each value: 1 to 128 bytes of UTF-8 without control characters, the same for
	// ever.
	Codec Codec
	// Errors revives sentinels when a recorded failure is replayed: by the code
	// that their Code() string method, or the recorded error's, gave. The
	// default is none.
	Errors map[string]error

	// MaxValue is the largest value that is kept, in bytes. A larger one is
	// recorded as done, without its body. The default is 1 MiB.
	MaxValue int
	// MaxWaiters bounds the calls that wait for one key in this process; one
	// more gets [ErrInProgress]. The default is 1024.
	MaxWaiters int

	// FingerprintKeys make stored fingerprints keyed digests (HMAC-SHA-256).
	// The first writes, all are compared. Without one a fingerprint is a plain
	// SHA-256, which can be guessed by whoever reads the store and knows what
	// the request may look like: never fingerprint a body with a card number
	// without a key. The default is none.
	FingerprintKeys []FingerprintKey

	// Observer sees what happens to each key. The default logs takeovers, lost
	// leases, outcomes not recorded and unprotected runs to slog.Default at
	// Warn, with hashed keys; [Discard] silences it.
	Observer Observer
	// HashKeysInErrors puts a digest in the place of the key into error
	// messages, for keys that identify a person. The default is false.
	HashKeysInErrors bool
}

// FingerprintKey is a secret for fingerprints.
type FingerprintKey struct {
	// ID is stored beside each fingerprint; not empty, at most 64 bytes.
	ID string
	// Key is the secret; at least 16 bytes.
	Key []byte
}

// UnknownPolicy says what to do with a key when some earlier attempt may have
// had its effect.
type UnknownPolicy uint8

const (
	// Rerun runs the operation again: right for an operation that is
	// transactional or passes [Claim.ProviderKey] on.
	Rerun UnknownPolicy = iota
	// Hold runs nothing and returns [ErrOutcomeUnknown] until a recovery or
	// [Store.Resolve] has told how the attempt ended. An end that certainly had
	// no effect still frees the key: [NotApplied], and errors that say that
	// nothing was sent, a provider's 429 and 503 among them. An operation that
	// has several effects, or calls through a proxy that answers 503 after it
	// has forwarded, should mark such errors [Unknown].
	Hold
)

// ExecuteOption changes one call. The options are made by WithFingerprint,
// WithLease, WithMaxRun, WithRetention, WithWait, WithRecover, WithProvider,
// OnUnknown and ReportTo.
type ExecuteOption func(*callOptions) error

// callOptions are a Store's options as one call sees them.
type callOptions struct {
	lease, renewEvery, maxRun time.Duration
	retention                 time.Duration
	window                    time.Duration // what is left of the shortest provider's; 0: none
	wait                      time.Duration
	policy                    UnknownPolicy
	neverRenewed              bool // a claim from Store.Claim
	recover                   RecoverFunc
	providers                 []driver.ProviderWindow
	prints                    []driver.Fingerprint
	report                    *Result
	store                     *Store
}

// strict reports whether an end that may hide an effect holds the key.
func (o *callOptions) strict() bool { return o.policy == Hold || o.recover != nil }

// apply applies all options, so that each has had its say, and returns the first
// error.
func (o *callOptions) apply(opts []ExecuteOption) error {
	var first error
	for _, opt := range opts {
		var err error = invalidOption("an ExecuteOption is nil")
		if opt != nil {
			err = opt(o)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// WithFingerprint says what request the key stands for: a call whose request
// differs gets [ErrFingerprintMismatch]. A digest is stored, not b; b may be
// changed once the call has begun.
func WithFingerprint(b []byte) ExecuteOption {
	return func(o *callOptions) error {
		o.prints = o.store.fingerprints(b)
		return nil
	}
}

// WithLease sets Options.Lease for this call. Zero keeps the Store's.
func WithLease(d time.Duration) ExecuteOption {
	return func(o *callOptions) error { return setDuration(&o.lease, d, "WithLease") }
}

// claimLease is WithLease for a claim that is never renewed by itself.
func claimLease(d time.Duration) ExecuteOption {
	return func(o *callOptions) error {
		o.neverRenewed = true
		return setDuration(&o.lease, d, "Claim: the lease")
	}
}

// WithMaxRun sets Options.MaxRun for this call. Zero keeps the Store's.
func WithMaxRun(d time.Duration) ExecuteOption {
	return func(o *callOptions) error { return setDuration(&o.maxRun, d, "WithMaxRun") }
}

// WithRetention sets Options.Retention for this call; not less than the Store's
// RetryWindow. Zero keeps the Store's.
func WithRetention(d time.Duration) ExecuteOption {
	return func(o *callOptions) error {
		if err := setDuration(&o.retention, d, "WithRetention"); err != nil {
			return err
		}
		if o.retention < o.store.opts.RetryWindow {
			return invalidOption("WithRetention: retention %v is shorter than the retry window %v", d, o.store.opts.RetryWindow)
		}
		return nil
	}
}

// WithWait waits up to limit for a running duplicate instead of returning
// [ErrInProgress]. It bounds the wait alone, not the operation. Zero does not
// wait.
func WithWait(limit time.Duration) ExecuteOption {
	return func(o *callOptions) error { return setDuration(&o.wait, limit, "WithWait") }
}

// WithRecover gives the key a recovery: when an earlier attempt may have had
// its effect, f is asked before the operation may run again. It also takes a
// held key, and makes each end that may hide an effect hold the key.
func WithRecover(f RecoverFunc) ExecuteOption {
	return func(o *callOptions) error {
		if f == nil {
			return invalidOption("WithRecover: the function is nil")
		}
		o.recover = f
		return nil
	}
}

// WithProvider says that the operation calls a provider that deduplicates by
// [Claim.ProviderKey] and remembers keys for window, counted from the first
// claim. [Rerun] acts as [Hold] when less than one MaxRun of it is left, and
// the operation's context ends with it. With several providers the shortest
// counts; a window shorter than MaxRun makes Rerun act as Hold from the start.
// The Store must have a namespace.
func WithProvider(name string, window time.Duration) ExecuteOption {
	return func(o *callOptions) error {
		switch {
		case o.store.opts.Namespace == "":
			return invalidOption("WithProvider(%q): the Store has no Namespace, so another service on the same provider account could share its keys", name)
		case len(name) > maxProviderLen || checkText(name) != "":
			return invalidOption("WithProvider(%q): the name is empty, longer than %d bytes, or has forbidden characters", name, maxProviderLen)
		case window <= 0 || window > maxDuration:
			return invalidOption("WithProvider(%q): the window %v is not positive, or over a hundred years", name, window)
		}
		for _, p := range o.providers {
			if p.Name == name {
				return invalidOption("WithProvider(%q): given twice", name)
			}
		}
		o.providers = append(o.providers, driver.ProviderWindow{Name: strings.Clone(name), Window: window})
		return nil
	}
}

// OnUnknown sets Options.OnUnknown for this call.
func OnUnknown(p UnknownPolicy) ExecuteOption {
	return func(o *callOptions) error {
		if p > Hold {
			return invalidOption("OnUnknown: there is no policy %d", p)
		}
		o.policy = p
		return nil
	}
}

// ReportTo lets [Do], which returns a value of its own type, tell what Execute
// would: *r is set before the call returns, also beside an error; it is the zero
// value if the call was refused before it began.
func ReportTo(r *Result) ExecuteOption {
	return func(o *callOptions) error {
		if r == nil {
			return invalidOption("ReportTo: the result is nil")
		}
		o.report, *r = r, Result{}
		return nil
	}
}

// setDuration sets *to unless d is zero; negative durations are refused.
func setDuration(to *time.Duration, d time.Duration, name string) error {
	if d < 0 || d > maxDuration {
		return invalidOption("%s: %v is negative, or over a hundred years", name, d)
	}
	if d > 0 {
		*to = d
	}
	return nil
}

// withDefaults returns a copy of o, validated and complete.
func (o *Options) withDefaults(b driver.Backend) (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	own := defaultRetention
	if r, ok := driver.As[driver.Retainer](b); ok {
		own = r.DefaultRetention()
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Lease", &out.Lease, defaultLease},
		{"MaxRun", &out.MaxRun, defaultMaxRun},
		{"Retention", &out.Retention, own},
		{"RetryWindow", &out.RetryWindow, defaultRetryWindow},
		{"StoreTimeout", &out.StoreTimeout, defaultStoreTimeout},
		{"RecordTimeout", &out.RecordTimeout, defaultRecordTimeout},
	} {
		d := *f.value
		*f.value = f.def
		if err := setDuration(f.value, d, f.name); err != nil {
			return out, err
		}
	}
	if err := out.checkSizes(); err != nil {
		return out, err
	}
	if out.Retention < out.RetryWindow {
		return out, invalidOption("Retention %v is shorter than RetryWindow %v: a retry could find nothing and run again", out.Retention, out.RetryWindow)
	}
	if _, err := renewal(out.Lease, out.RenewEvery); err != nil {
		return out, err
	}
	return out, out.checkIdentity()
}

// checkSizes validates and completes what is not a duration.
func (o *Options) checkSizes() error {
	const maxCodecLen = 128
	if o.MaxValue < 0 || o.MaxWaiters < 0 {
		return invalidOption("MaxValue %d or MaxWaiters %d is negative", o.MaxValue, o.MaxWaiters)
	}
	if o.MaxValue == 0 {
		o.MaxValue = defaultMaxValue
	}
	if o.MaxWaiters == 0 {
		o.MaxWaiters = defaultMaxWaiters
	}
	if o.OnUnknown > Hold {
		return invalidOption("OnUnknown: there is no policy %d", o.OnUnknown)
	}
	if o.Codec == nil {
		o.Codec = jsonCodec{}
	}
	if id := o.Codec.ID(); len(id) > maxCodecLen || checkText(id) != "" {
		return invalidOption("Codec: the id %.64q is empty, longer than %d bytes, or has forbidden characters", id, maxCodecLen)
	}
	return nil
}

// checkIdentity validates the namespace and the fingerprint keys.
func (o *Options) checkIdentity() error {
	if o.Namespace != "" {
		if problem := checkText(o.Namespace); problem != "" || len(o.Namespace) > maxNamespaceLen {
			return invalidOption("Namespace %q: %s", o.Namespace, orElse(problem, fmt.Sprintf("longer than %d bytes", maxNamespaceLen)))
		}
	}
	o.Namespace = strings.Clone(o.Namespace)
	keys := make([]FingerprintKey, 0, len(o.FingerprintKeys))
	seen := make(map[string]bool, len(o.FingerprintKeys))
	for _, k := range o.FingerprintKeys {
		if k.ID == "" || len(k.ID) > 64 || checkText(k.ID) != "" || len(k.Key) < 16 || seen[k.ID] {
			return invalidOption("FingerprintKeys: id %q is empty, too long or given twice, or its key is shorter than 16 bytes", k.ID)
		}
		seen[k.ID] = true
		keys = append(keys, FingerprintKey{ID: strings.Clone(k.ID), Key: append([]byte(nil), k.Key...)})
	}
	o.FingerprintKeys = keys
	o.Errors = maps.Clone(o.Errors)
	return nil
}

// renewal returns the time between renewals of a lease; zero every is a third
// of it. Two renewals must fit into the lease, so that one may fail.
func renewal(lease, every time.Duration) (time.Duration, error) {
	switch {
	case lease < minLease:
		return 0, invalidOption("Lease %v is shorter than %v", lease, minLease)
	case every < 0:
		return 0, invalidOption("RenewEvery %v is negative", every)
	case every == 0:
		return lease / 3, nil
	case every < minRenewEvery:
		return 0, invalidOption("RenewEvery %v is shorter than %v", every, minRenewEvery)
	case every >= (lease+1)/2:
		return 0, invalidOption("RenewEvery %v does not fit twice into Lease %v", every, lease)
	}
	return every, nil
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
