// Package examples has circuit breakers of other libraries stand where
// backoff.Policy has its Breaker: a seam of one method.
package examples
