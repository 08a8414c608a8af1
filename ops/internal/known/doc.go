// Package known answers what is known of the programs that use a store: which queues there are, who consumes them,
// which kinds and plans exist. The programs' workers have published that (package ops/catalog), and a program's own
// binary knows it of itself.
//
// A queue is consumed by the programs that have a handler for it and have published within two days. A worker publishes
// once a day, so nobody knows it sooner when the last one stops.
package known
