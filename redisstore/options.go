package redisstore

import (
	"fmt"
	"time"
)

const (
	defaultPrefix         = "idem:"
	defaultRetention      = 7 * 24 * time.Hour
	defaultReplicaTimeout = time.Second

	// keepUnknown is how long a record without an outcome is kept at least after
	// its lease has ended, or after it was held (I13): the server forgets by
	// itself, and a crash must not turn into "never seen".
	keepUnknown = 90 * 24 * time.Hour
)

// Options of a [Backend]. The zero value is valid.
type Options struct {
	// Prefix is what every key of this backend, and every channel of its hints,
	// begins with, for ever. With braces around a part, as in "{idem}:", all
	// records are in one slot of a Cluster. The default value is "idem:".
	Prefix string

	// Retention is how long an outcome is kept when the caller names no
	// retention; DefaultRetention tells it. A negative one is refused. The default
	// value is 7 days.
	Retention time.Duration

	// MinReplicas is how many replicas must have received a change before a call
	// says that it was made. Each call that changes a record then takes another
	// round trip, in which the server waits for its replicas (WAIT). That makes it
	// less likely that a failover loses what was acknowledged; it is no consensus,
	// see the package documentation. Negative is refused. The default value is 0:
	// no call waits.
	MinReplicas int

	// ReplicaTimeout is how long a call waits for MinReplicas. When it has passed,
	// the call fails: the change is made, at the primary, and making it again
	// waits again. It must be shorter than the client's ReadTimeout. Negative is
	// refused. The default value is 1 second.
	ReplicaTimeout time.Duration
}

// withDefaults returns the options with every zero replaced.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	switch {
	case out.Retention < 0:
		return out, fmt.Errorf("redisstore: Options.Retention = %v is negative", out.Retention)
	case out.MinReplicas < 0:
		return out, fmt.Errorf("redisstore: Options.MinReplicas = %d is negative", out.MinReplicas)
	case out.ReplicaTimeout < 0:
		return out, fmt.Errorf("redisstore: Options.ReplicaTimeout = %v is negative", out.ReplicaTimeout)
	}
	if out.Prefix == "" {
		out.Prefix = defaultPrefix
	}
	if out.Retention == 0 {
		out.Retention = defaultRetention
	}
	if out.ReplicaTimeout == 0 {
		out.ReplicaTimeout = defaultReplicaTimeout
	}
	return out, nil
}
