package wire

import (
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	// lastHop is the least time that is left of a long delay when it is hidden for the last time. So a message that came
	// because all its time is over can be told from one that comes on its way.
	lastHop = time.Hour

	// clocksApart is how far the clocks of two machines may differ without an effect on a long delay.
	clocksApart = time.Minute
)

// Hide returns how long to hide a message that is due after d, as far as every engine can hide it. A message that is
// due later than that comes before, and is handed back; see [Envelope.Early].
func Hide(d time.Duration) time.Duration {
	if d > storage.MaxDelay {
		return storage.MaxDelay - lastHop
	}
	return max(0, d)
}

// delay returns how long a message that is sent now is hidden.
func (e *Envelope) delay(now time.Time) time.Duration {
	if e.Due.IsZero() {
		return 0
	}
	return Hide(e.Due.Sub(now))
}

// Early returns how long to hide a message again that has come before it is due, and 0 for any other. Only a delay that
// is too long for an engine is measured by clocks. A shorter one is over when the engine shows the message, whatever
// the clocks say.
func (e *Envelope) Early(now time.Time) time.Duration {
	left := e.Due.Sub(now)
	if left <= clocksApart || e.Due.Sub(e.Time) <= storage.MaxDelay-lastHop {
		return 0
	}
	return Hide(left)
}

// started reports that a handler may have had a message. What Due says is no longer when it is due for the first time:
// see Postpone.
func (e *Envelope) started() bool { return e.Attempts+e.HandBacks > 0 }

// Postpone makes a message due after d, if that is too long for an engine, and returns how long to hide it.
func (e *Envelope) Postpone(now time.Time, d time.Duration) time.Duration {
	if d > storage.MaxDelay {
		e.Due = now.Add(min(d, MaxDelay))
	}
	return Hide(d)
}
