// Package tiertest has the tests of tieredstore and movestore over real servers:
// those packages, and their tests, know no client library.
package tiertest
