//go:build race

package simulation

// raceDetector reports whether the tests run with the race detector.
const raceDetector = true
