package guard

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
)

// seat is what a call has of the limits.
type seat struct {
	parts  *parts
	waited time.Duration // for it

	began time.Time // the rest is for adaptive alone
	told  breaker.Outcome
	away  bool        // the breaker wasn't closed all the time
	stop  func() bool // keeps the end of the call's context from freeing its place
	freed bool        // it did
}

// teach notes what a call tells of the service, for an adaptive limit.
func (p *permit) teach(b *localBreaker, told breaker.Outcome) {
	if s := &p.seat; s.parts != nil && s.parts.adaptive != nil {
		s.told, s.away = told, p.HasPlace() || !p.IsOf(b.view().Epoch)
	}
}

// took begins a call that has its slot, or gives the slot back if another limit was reached.
func (a *adaptive) took(s *seat) {
	if s.parts == nil {
		a.slots.Give()
		return
	}
	s.began = time.Now()
	a.begin(s.began)
}

// until frees the place of a call when its context ends: the call may never return.
func (s *seat) until(ctx context.Context, tell func()) {
	if s.parts == nil || s.parts.adaptive == nil {
		return
	}
	a, began := s.parts.adaptive, s.began
	s.stop = context.AfterFunc(ctx, func() {
		a.gave(seat{began: began})
		tell()
	})
}

// returned notes that the call has returned, while its context still holds or has ended by itself.
func (s *seat) returned() { s.freed = s.stop != nil && !s.stop() }

// gave ends a call, unless the end of its context did.
func (a *adaptive) gave(s seat) {
	if a != nil && !s.freed {
		a.end(s.began, time.Now(), s.told, s.away)
		a.slots.Give()
	}
}
