package wire

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A delay that an engine can hide at once is hidden at once. Of a longer one, an hour at least is left for the last
// time.
func TestHideLeavesAnHour(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, 1: 1, storage.MaxDelay: storage.MaxDelay,
		storage.MaxDelay + 1:                storage.MaxDelay - time.Hour,
		storage.MaxDelay + 30*time.Second:   storage.MaxDelay - time.Hour,
		storage.MaxDelay + 2*time.Hour:      storage.MaxDelay - time.Hour,
		MaxDelay:                            storage.MaxDelay - time.Hour,
		storage.MaxDelay + 1000*time.Hour:   storage.MaxDelay - time.Hour,
		2*storage.MaxDelay - time.Hour:      storage.MaxDelay - time.Hour,
		time.Duration(1<<63 - 1):            storage.MaxDelay - time.Hour,
		storage.MaxDelay - time.Millisecond: storage.MaxDelay - time.Millisecond,
	} {
		if got := Hide(d); got != want {
			t.Errorf("Hide(%v): got %v, want %v", d, got, want)
		}
		if err := storage.CheckDelay(Hide(d)); err != nil {
			t.Errorf("Hide(%v): %v", d, err)
		}
		if rest := d - Hide(d); rest > 0 && rest < lastHop {
			t.Errorf("Hide(%v) leaves %v", d, rest)
		}
	}
}

// Clocks measure long delays only. A minute between two of them has no effect.
func TestEarly(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		delay, after time.Duration // of the due time and of now, since the message was made
		want         time.Duration
	}{
		{0, 0, 0},
		{5 * day, 0, 0}, // the engine has hidden it for five days, whatever this clock says
		{5 * day, -time.Hour, 0},
		{storage.MaxDelay - lastHop, 0, 0},
		{storage.MaxDelay, 0, storage.MaxDelay},
		{8 * day, 0, storage.MaxDelay - lastHop},
		{8 * day, 7*day - time.Hour, day + time.Hour},
		{8 * day, 8*day - time.Hour, time.Hour},
		{8 * day, 8*day - clocksApart - 1, clocksApart + 1},
		{8 * day, 8*day - clocksApart, 0},
		{8 * day, 8 * day, 0},
		{8 * day, 80 * day, 0},
		{MaxDelay, -time.Hour, storage.MaxDelay - lastHop},
	} {
		e := Envelope{Time: made, Due: made.Add(c.delay)}
		if got := e.Early(made.Add(c.after)); got != c.want {
			t.Errorf("due after %v, now after %v: got %v, want %v", c.delay, c.after, got, c.want)
		}
	}
	if got := new(Envelope).Early(made); got != 0 {
		t.Errorf("without a due time: got %v, want 0", got)
	}
	foreign := Envelope{Due: made.Add(time.Hour)} // without a time, nothing tells how long it was hidden
	if got := foreign.Early(made); got != time.Hour {
		t.Errorf("without a time: got %v, want an hour", got)
	}
}

func TestPostpone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, due := range map[time.Duration]time.Duration{
		-1: 0, 0: 0, time.Hour: 0, storage.MaxDelay: 0, storage.MaxDelay + 1: storage.MaxDelay + 1, MaxDelay: MaxDelay, 2 * MaxDelay: MaxDelay,
	} {
		e := Envelope{Time: now.Add(30 * time.Minute)} // another machine's clock
		if got := e.Postpone(now, d); got != Hide(d) {
			t.Errorf("Postpone(%v): got %v, want %v", d, got, Hide(d))
		}
		if due == 0 {
			if !e.Due.IsZero() {
				t.Errorf("Postpone(%v): got due time %v, want none", d, e.Due)
			}
		} else if got := e.Due.Sub(now); got != due || e.Early(now.Add(Hide(d))) == 0 && due-Hide(d) > clocksApart {
			t.Errorf("Postpone(%v): due after %v, want %v, and to be early before", d, got, due)
		}
	}
}
