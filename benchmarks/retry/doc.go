// Package retry has other libraries do the work of package backoff, each as its
// own documentation shows it, so that what they do can be put side by side: the
// behaviour in this package's tests, the speed in its benchmarks and in the
// command benchmarks/speed.
package retry
