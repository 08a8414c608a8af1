package pause

import "time"

// WithClock returns the pauses as a process sees them whose wall clock is now.
func WithClock(p *Pauses, now func() time.Time) *Pauses {
	other := *p
	other.now = now
	return &other
}

// Container and Key are where the blob is.
const (
	Container = container
	Key       = key
)
