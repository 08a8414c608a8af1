//go:build race

package millracetest

const raceDetector = true // with it, a run takes some ten times as long
