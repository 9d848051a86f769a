// Package redisstore keeps the records of idem in Redis or Valkey: one server,
// Sentinel or Cluster, through go-redis.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
//	backend, err := redisstore.New(rdb, nil)
//
// # What Redis can lose
//
// When a call returns nil, the primary has the change in memory (I10). What that
// is worth is decided by the server's settings:
//
//	appendfsync always        survives a crash of the server
//	appendfsync everysec      a crash forgets the last second
//	snapshots only, nothing   a crash forgets minutes, or everything
//	a failover                forgets what the new primary had not received:
//	                          replication is asynchronous
//
// A claim that was forgotten lets the operation run a second time, beside the
// first or after it; an outcome that was forgotten lets it run again. Where that
// must not happen, the operation passes [idem.Claim.ProviderKey] on or fences
// with [idem.Claim.Token], or the records are kept in Postgres.
// Options.MinReplicas makes every change wait until replicas have received it:
// a failover then loses less, and still something, because neither Redis nor
// Sentinel makes sure that the replica that becomes primary is one of those.
// [Backend.Check] tells which of these apply. A server that evicts
// (maxmemory-policy) is refused.
//
// # Time and tokens
//
// The primary's clock decides all expiry (I7). A token is the larger of the last
// token of the key plus one and that clock in microseconds, so that tokens rise
// also after a record has ended. They rise over a failover or a restored backup
// provided that the new primary's clock is not behind the last token issued: keep
// the clocks of all servers synchronised.
//
// Redis removes records by itself: an outcome and a released record when their
// retention has ended, a record whose outcome is unknown 90 days after its last
// change, or after its retention if that is longer. There is nothing to purge.
//
// # Servers and clients
//
// Redis 6.2 and later, Valkey, and servers that run the same scripts. The client
// must have ContextTimeoutEnabled; a Ring is refused, see [New]. Commands are
// repeated as often as the client's options say (MaxRetries, on a Cluster
// MaxRedirects), and recognise themselves (I6). A call returns when the deadline
// of its context has come; that a context without a deadline was cancelled is
// noticed with the server's answer, at the latest after the client's ReadTimeout.
//
// After a failover, calls fail until the client knows the new primary. Those that
// the old one refused, or that could not be sent, match
// [driver.ErrUnavailable]: nothing was changed. A server that is full, that is a
// replica or that misses replicas refuses to write and goes on to answer
// duplicates.
//
// # Keys
//
// The record of a key is a string under Options.Prefix, "{}" and the key, byte
// for byte ([Backend.RedisKey]): no two keys share a record, any bytes will do,
// and in a Cluster the whole name chooses the slot, whatever braces the key has.
// Everybody who can read the server can read keys and outcomes; a key that
// identifies a person should be a digest.
//
// # Rights
//
// With this line in the server's ACL file everything works on one server or
// behind Sentinel; the first pattern is for keys, the second for the channels of
// hints, which have the same names:
//
//	user idem on >password ~idem:* &idem:* +evalsha +eval +get +getrange +set
//	  +setrange +time +publish +subscribe +unsubscribe +scan +info +config|get
//
// Without +config|get, Check warns that it cannot see how the server persists.
// Without +publish, +subscribe, +unsubscribe and +setrange those who wait poll,
// without +scan nothing can be listed. Options.MinReplicas needs +ping +wait
// besides; a Cluster client needs +cluster|slots +command +readonly. The user of a
// [Cache] needs
//
//	user idem-cache on >password ~idem-cache:* +evalsha +eval +get +set
//	  +time +info +pttl +del
//
// # Hints
//
// A waiting duplicate marks the claim it waits for, and whoever settles a marked
// claim publishes a message on a channel with the record's name. A claim that
// nobody waits for publishes nothing.
package redisstore
