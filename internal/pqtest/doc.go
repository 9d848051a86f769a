// Package pqtest runs the transaction mode of pgstore over lib/pq, the driver for
// database/sql that many programs still have. It is a module of its own, so that
// idem's does not require that driver.
package pqtest
