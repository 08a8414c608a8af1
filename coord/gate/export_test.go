package gate

import "time"

// WithClock returns the gate for a process whose wall clock shows now.
func WithClock(g *Gate, now func() time.Time) *Gate {
	other := *g
	other.now = now
	return &other
}

// Polling is a Config whose process looks at a closed gate that often.
func Polling(every time.Duration) Config { return Config{poll: every} }
