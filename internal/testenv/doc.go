// Package testenv starts real servers for tests and examples: Redis, alone, as a
// Cluster and behind Sentinel, Postgres and pgbouncer. Each runs on a loopback
// port that no other test process gets, in a temporary folder; it is stopped by
// its own process id and, on Linux, by the kernel if this process dies. Postgres
// refuses root: then it runs as the user postgres or nobody.
//
// IDEM_TEST_REDIS_URL and IDEM_TEST_POSTGRES_URL name servers to use in place of
// local ones, except by tests that must stop theirs or configure it.
//
// Where a server's program is missing, Debian and Ubuntu get it with apt-get if
// the process is root, one process at a time and without starting the packaged
// service. Otherwise whoever needs it fails, and is told what to install: nothing
// here skips a test.
package testenv
