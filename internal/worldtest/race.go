//go:build race

package worldtest

// RaceDetector reports that the tests run with the race detector. A run of a world takes some ten times as long then.
const RaceDetector = true

// Stride is how far apart the calls are in which a test has a fault: with the race detector it leaves out nine of ten.
// Without it, as make simulate runs them, each call has one.
const Stride = 10
