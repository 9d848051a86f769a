// Package integration runs the conformance suite and the core's cases on
// redisstore and pgstore over the versions of their servers that people run, in
// containers: `make integration`. It needs a container engine that can pull, or
// has, the images:
//
//	IDEM_TEST_REDIS_IMAGES     redis:6.2 redis:7 redis:8 valkey/valkey:8
//	IDEM_TEST_POSTGRES_IMAGES  postgres:13 … postgres:18
//
// Each variable is a list separated by spaces, and an empty list is refused.
// local.sh proves the path where nothing can be pulled, with images made from
// local binaries: `make integration-local`.
package integration
