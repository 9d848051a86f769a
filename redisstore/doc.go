// Package redisstore keeps the records of idem in Redis or Valkey.
package redisstore
