//go:build !race

package millracetest

const raceDetector = false
