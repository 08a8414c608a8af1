package reservations

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage"
)

// A Season is a year whose dates can be booked only while the gate "season-YEAR" is open. It opens for all programs at
// once: at the announced moment, or when an operator decides.
//
//	millrace gates open season-2027 --at 2026-12-01T10:00:00+01:00
//	millrace gates open season-2027
//	millrace gates close season-2027
//
// Only the site asks, before it sends a command: what was sent is decided. A nil Season closes nothing.
type Season struct {
	year  string
	opens time.Time // to announce; zero for no announcement
	gate  *gate.Gate
	log   *slog.Logger
	state atomic.Pointer[gate.State] // as last seen; nil before the first look
}

// NewSeason returns the season of a year, closed until [Season.Follow] has seen its gate open. Opens is the moment to
// announce; zero announces none.
func NewSeason(s *storage.Store, year int, opens time.Time, log *slog.Logger) (*Season, error) {
	name := fmt.Sprintf("%04d", year)
	g, err := gate.New(s, "season-"+name, gate.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	return &Season{year: name, opens: opens, gate: g, log: log}, nil
}

// Follow keeps the season as its gate is, until ctx ends. While the store fails, the season stays as it was last seen.
func (s *Season) Follow(ctx context.Context) error {
	const pause = 10 * time.Second
	for ctx.Err() == nil {
		err := s.announce(ctx)
		if err == nil {
			err = s.watch(ctx)
		}
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "can't follow the season's gate; trying again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// announce announces the opening, unless somebody has opened, closed or announced it before.
func (s *Season) announce(ctx context.Context) error {
	state, err := s.gate.State(ctx)
	if err != nil {
		return err
	}
	s.state.Store(&state)
	if s.opens.IsZero() || state.Epoch > 0 {
		if !s.opens.IsZero() && !state.Open && !state.OpensAt.Equal(s.opens) {
			s.log.WarnContext(ctx, "the season's gate doesn't open when -season-opens says; an operator's decision or an earlier announcement stays",
				slog.String("gate", "season-"+s.year), slog.Time("gate_opens", state.OpensAt), slog.Time("season_opens", s.opens))
		}
		return nil
	}
	return s.gate.OpenAt(ctx, s.opens, gate.Note{Why: "the setting -season-opens"})
}

func (s *Season) watch(ctx context.Context) error {
	for state, err := range s.gate.Watch(ctx) {
		if err != nil {
			return err
		}
		s.state.Store(&state)
	}
	return context.Cause(ctx)
}

// Closed returns a sentence for people, and the announced moment if there is one, for a date or a month of the season
// that can't be booked yet. The sentence is empty for others. The moment is written in now's location.
func (s *Season) Closed(date string, now time.Time) (sentence string, opens time.Time) {
	if s == nil || !strings.HasPrefix(date, s.year+"-") {
		return "", time.Time{}
	}
	state := s.state.Load()
	switch {
	case state == nil || !state.Open && !state.OpensAt.After(now):
		return "Bookings for " + s.year + " open soon.", time.Time{}
	case state.Open:
		return "", time.Time{}
	}
	return "Bookings for " + s.year + " open on " + state.OpensAt.In(now.Location()).Format("Monday, 2 January 2006 at 15:04") + ".", state.OpensAt
}
