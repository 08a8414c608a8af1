package guard

import "time"

// WithInPlace sets how long a handler waits for a permit, or before it repeats a call. With 0, calls are repeated by
// delivery only.
func WithInPlace(g *Guard, d time.Duration) *Guard {
	g.inPlace = d
	return g
}
