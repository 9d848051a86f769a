package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/driver"
)

// maxSkew is how far a server's clock may be from this process's before Check
// warns: tokens come from it.
const maxSkew = 10 * time.Second

// Check implements [driver.Checker]. It asks every primary for INFO, TIME and
// two settings.
//
// Refused: an evicting maxmemory-policy (evicting_policy), a replica (replica),
// a Cluster behind a client for one server (cluster_client), a server that is
// too old (old_server), fewer replicas than Options.MinReplicas (few_replicas).
// Warned of: nothing is persisted (not_persisted), snapshots only
// (snapshots_only), the append-only file is written every second or less often
// (aof_not_always), replicas that no call waits for (replicas_not_awaited), a
// clock far from this process's (clock), settings that the server does not show
// (settings_hidden).
func (b *Backend) Check(ctx context.Context) error {
	return b.client.check(ctx, func(s *server) []*driver.Finding {
		return []*driver.Finding{
			s.evicts(), s.isReplica(), s.isCluster(b.client.cluster != nil), s.isOld(), s.lacksReplicas(b.opts.MinReplicas),
			s.persists(), s.hides(), s.differs(),
		}
	})
}

// Check implements [driver.Checker] for the fast tier. It asks every primary for
// INFO and TIME.
//
// Refused: a replica (replica), a Cluster behind a client for one server
// (cluster_client), a server that is too old (old_server). Warned of: a
// maxmemory-policy that evicts the markers of Delete before copies that nobody
// reads (evicts_markers).
func (c *Cache) Check(ctx context.Context) error {
	return c.on.client.check(ctx, func(s *server) []*driver.Finding {
		return []*driver.Finding{s.isReplica(), s.isCluster(c.on.client.cluster != nil), s.isOld(), s.evictsMarkers()}
	})
}

// check joins what judge finds at each primary.
func (c *client) check(ctx context.Context, judge func(s *server) []*driver.Finding) error {
	var findings []error
	err := c.primaries(ctx, func(ctx context.Context, node redis.Cmdable) error {
		s, err := look(ctx, node)
		if err != nil {
			return err
		}
		for _, f := range judge(s) {
			if f != nil {
				findings = append(findings, f)
			}
		}
		return nil
	})
	if err != nil {
		return failure(ctx, err, true)
	}
	return errors.Join(findings...)
}

// server is what a server tells of itself.
type server struct {
	info   map[string]string
	config map[string]string // nil: it does not show its settings
	skew   time.Duration
}

func look(ctx context.Context, node redis.Cmdable) (*server, error) {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	s := &server{info: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s.info[name] = value
		}
	}
	asked := time.Now()
	at, err := node.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	s.skew = at.Sub(asked)
	for _, name := range []string{"appendfsync", "save"} {
		found, err := node.ConfigGet(ctx, name).Result()
		if err != nil && asAnswer(err) == nil {
			return nil, err
		}
		if err != nil {
			return s, nil //nolint:nilerr // many hosts of Redis forbid CONFIG: see hides
		}
		if s.config == nil {
			s.config = map[string]string{}
		}
		s.config[name] = found[name]
	}
	return s, nil
}

// number reads what may be missing.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func refuse(code, remedy string) *driver.Finding {
	return &driver.Finding{Severity: driver.Refuse, Code: code, Remedy: remedy}
}

func warn(code, remedy string) *driver.Finding {
	return &driver.Finding{Severity: driver.Warn, Code: code, Remedy: remedy}
}

func (s *server) evicts() *driver.Finding {
	policy := s.info["maxmemory_policy"]
	if policy == "" || policy == "noeviction" {
		return nil
	}
	return refuse("evicting_policy", "the server's maxmemory-policy is "+policy+": when it is full it forgets claims and outcomes, "+
		"and operations run again; set maxmemory-policy noeviction")
}

// evictsMarkers: a marker is young, has a short life, and is not read. Policies by
// age or use take the old copies first; by lifetime or chance they do not.
func (s *server) evictsMarkers() *driver.Finding {
	switch policy := s.info["maxmemory_policy"]; policy {
	case "volatile-ttl", "volatile-random", "allkeys-random":
		return warn("evicts_markers", "the server's maxmemory-policy is "+policy+": when it is full it may forget that a copy was deleted a moment ago, "+
			"so that a slow reader puts an old one back; set allkeys-lru")
	}
	return nil
}

func (s *server) isReplica() *driver.Finding {
	if s.info["role"] != "slave" {
		return nil
	}
	return refuse("replica", "the server is a replica: it refuses writes, and what it shows may be old; connect to the primary")
}

func (s *server) isCluster(client bool) *driver.Finding {
	if s.info["cluster_enabled"] != "1" || client {
		return nil
	}
	return refuse("cluster_client", "the server is part of a Cluster, and the client is one for a single server; use redis.NewClusterClient")
}

func (s *server) isOld() *driver.Finding {
	version := s.info["redis_version"]
	parts := strings.SplitN(version+".", ".", 3)
	major, ok := number(parts[0])
	minor, okMinor := number(parts[1])
	if !ok || !okMinor || major > 6 || major == 6 && minor >= 2 {
		return nil
	}
	return refuse("old_server", "the server has version "+version+"; 6.2 is the oldest that is supported")
}

func (s *server) lacksReplicas(want int) *driver.Finding {
	have, ok := number(s.info["connected_slaves"])
	switch {
	case !ok:
		return nil
	case have < want:
		return refuse("few_replicas", fmt.Sprintf("the server has %d replicas, Options.MinReplicas is %d: every change would time out", have, want))
	case have > 0 && want == 0:
		return warn("replicas_not_awaited", fmt.Sprintf("the server has %d replicas and no call waits for them: a failover forgets what had not reached "+
			"the new primary; set Options.MinReplicas", have))
	}
	return nil
}

func (s *server) persists() *driver.Finding {
	aof, fsync := s.info["aof_enabled"] == "1", s.config["appendfsync"]
	switch {
	case aof && (s.config == nil || fsync == "always"):
		return nil
	case aof:
		return warn("aof_not_always", "appendfsync is "+fsync+": a crash of the server forgets the last second or more; set appendfsync always")
	case s.config == nil:
		return warn("not_persisted", "the append-only file is off: a restart of the server forgets claims and outcomes; set appendonly yes and appendfsync always")
	case s.config["save"] == "":
		return warn("not_persisted", "nothing is persisted: a restart of the server forgets everything; set appendonly yes and appendfsync always")
	}
	return warn("snapshots_only", "the append-only file is off: a crash of the server forgets everything since its last snapshot; "+
		"set appendonly yes and appendfsync always")
}

func (s *server) hides() *driver.Finding {
	if s.config != nil {
		return nil
	}
	return warn("settings_hidden", "the server does not answer CONFIG GET: whether it writes its append-only file at every change is not known; "+
		"allow +config|get, or look yourself")
}

func (s *server) differs() *driver.Finding {
	if s.skew.Abs() < maxSkew {
		return nil
	}
	return warn("clock", fmt.Sprintf("the server's clock differs from this process's by %v: after a failover or a restore to a server whose clock is behind, "+
		"tokens could fall; keep the clocks of all servers synchronised", s.skew.Round(time.Second)))
}
