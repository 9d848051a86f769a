package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redisstore"
)

// codes of the findings in err, with what they say.
func codes(t *testing.T, err error) map[string]driver.Severity {
	t.Helper()
	out := map[string]driver.Severity{}
	if err == nil {
		return out
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v", err)
	for _, e := range joined.Unwrap() {
		var f *driver.Finding
		require.ErrorAs(t, e, &f)
		require.NotEmpty(t, f.Remedy)
		out[f.Code] = f.Severity
	}
	return out
}

func TestCheckFindsWhatServersDoNotKeep(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		args []string
		want map[string]driver.Severity
	}{
		"everything kept":    {[]string{"--appendonly", "yes", "--appendfsync", "always"}, map[string]driver.Severity{}},
		"nothing":            {nil, map[string]driver.Severity{"not_persisted": driver.Warn}},
		"snapshots":          {[]string{"--save", "60 1"}, map[string]driver.Severity{"snapshots_only": driver.Warn}},
		"every second":       {[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, map[string]driver.Severity{"aof_not_always": driver.Warn}},
		"when it is at ease": {[]string{"--appendonly", "yes", "--appendfsync", "no"}, map[string]driver.Severity{"aof_not_always": driver.Warn}},
		"evicting, without a limit": {
			[]string{"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "volatile-ttl"},
			map[string]driver.Severity{"evicting_policy": driver.Refuse},
		},
		"evicting": {
			[]string{"--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			map[string]driver.Severity{"evicting_policy": driver.Refuse},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			b := open(t, connect(t, testenv.OwnRedis(t, testenv.RedisConfig{Args: c.args}).Addr()))
			require.Equal(t, c.want, codes(t, b.Check(t.Context())))
		})
	}
}

// A refusal is found before the first claim: nothing runs.
func TestNothingRunsOnAServerThatEvicts(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--maxmemory-policy", "allkeys-random"}})
	n := 0
	_, err := store(t, open(t, connect(t, s.Addr()))).Execute(t.Context(), "k", counted(&n))
	require.ErrorContains(t, err, "noeviction")
	require.Zero(t, n)
}

func TestCheckLooksAtReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := withReplica(t)
	finds := func(s *testenv.RedisServer, change ...func(*redisstore.Options)) map[string]driver.Severity {
		found := codes(t, open(t, connect(t, s.Addr()), change...).Check(t.Context()))
		delete(found, "not_persisted")
		return found
	}
	require.Equal(t, map[string]driver.Severity{"replicas_not_awaited": driver.Warn}, finds(primary))
	require.Empty(t, finds(primary, awaiting(1, 1e9)))
	require.Equal(t, map[string]driver.Severity{"few_replicas": driver.Refuse}, finds(primary, awaiting(2, 1e9)))
	require.Equal(t, map[string]driver.Severity{"replica": driver.Refuse}, finds(replica))
}

// A host of Redis that forbids CONFIG is still looked at with INFO.
func TestCheckSaysWhatItCouldNotSee(t *testing.T) {
	t.Parallel()
	acl := "user default off\nuser app on >secret ~* &* +@all -config"
	as := func(o *redis.Options) { o.Username, o.Password = "app", "secret" }
	s := testenv.OwnRedis(t, testenv.RedisConfig{ACL: acl})
	found := codes(t, open(t, connect(t, s.Addr(), as)).Check(t.Context()))
	require.Equal(t, map[string]driver.Severity{"settings_hidden": driver.Warn, "not_persisted": driver.Warn}, found)
	s = testenv.OwnRedis(t, testenv.RedisConfig{ACL: acl, Args: []string{"--appendonly", "yes"}})
	found = codes(t, open(t, connect(t, s.Addr(), as)).Check(t.Context()))
	require.Equal(t, map[string]driver.Severity{"settings_hidden": driver.Warn}, found)
}

func TestCheckThatCannotLookIsNoFinding(t *testing.T) {
	t.Parallel()
	s := testenv.OwnRedis(t, testenv.RedisConfig{})
	b := open(t, connect(t, s.Addr(), noRetries))
	require.NoError(t, s.Kill())
	err := b.Check(t.Context())
	require.Error(t, err)
	require.False(t, driver.OnlyWarnings(err))
	_, err = idem.New(b, nil)
	require.NoError(t, err, "New asks nothing")
}

func TestCheckRefusesServersBefore62(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"2.8.24", "5.0.14", "6.0.20", "6.1.240"} {
		require.Equal(t, "old_server", redisstore.VersionFinding(old).Code, old)
		require.Equal(t, driver.Refuse, redisstore.VersionFinding(old).Severity)
	}
	for _, fine := range []string{"6.2.0", "6.2.14", "7.0.15", "7.2.4", "8.0.1", "10.0.0", "unstable", ""} {
		require.Nil(t, redisstore.VersionFinding(fine), fine)
	}
}

// The clock of a server far from this process's is warned of.
func TestCheckComparesClocks(t *testing.T) {
	t.Parallel()
	require.Equal(t, "clock", redisstore.ClockFinding(11e9).Code)
	require.Equal(t, "clock", redisstore.ClockFinding(-11e9).Code)
	require.Nil(t, redisstore.ClockFinding(9e9))
}

// A fast tier may run on a server that evicts, unless that takes markers first.
func TestCheckOfACacheLooksAtWhatItNeeds(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]map[string]driver.Severity{
		"noeviction": {}, "allkeys-lru": {}, "volatile-lfu": {},
		"volatile-ttl": {"evicts_markers": driver.Warn}, "allkeys-random": {"evicts_markers": driver.Warn},
	} {
		s := testenv.OwnRedis(t, testenv.RedisConfig{Args: []string{"--maxmemory-policy", policy}})
		require.Equal(t, want, codes(t, openCache(t, connect(t, s.Addr()), prefix()).Check(t.Context())), policy)
	}
	_, replica := withReplica(t)
	require.Equal(t, map[string]driver.Severity{"replica": driver.Refuse}, codes(t, openCache(t, connect(t, replica.Addr()), prefix()).Check(t.Context())))
}
