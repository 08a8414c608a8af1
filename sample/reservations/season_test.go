package reservations_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// follow follows the gate of the season 2000, the year in which virtual time begins, until the test ends.
func follow(t *testing.T, s *storage.Store, opens time.Time) *reservations.Season {
	t.Helper()
	season, err := reservations.NewSeason(s, 2000, opens, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if sentence, _ := season.Closed("2000-05-01", time.Now()); sentence != "Bookings for 2000 open soon." {
		t.Errorf("before the first look: got %q, want it closed", sentence)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- season.Follow(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return season
}

// wantSeason checks what each site says of the season.
func wantSeason(t *testing.T, want string, seasons ...*reservations.Season) {
	t.Helper()
	synctest.Wait()
	for i, s := range seasons {
		if got, _ := s.Closed("2000-05-01", time.Now().UTC()); got != want {
			t.Errorf("site %d says %q, want %q", i, got, want)
		}
	}
}

const announced = "Bookings for 2000 open on Saturday, 1 January 2000 at 10:00."

// All sites open at the announced moment, and follow an operator at once.
func TestSeasonOpensEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		opens := time.Now().Add(10 * time.Hour)
		a, b := follow(t, s, opens), follow(t, s, opens)
		wantSeason(t, announced, a, b)
		if got, _ := a.Closed("2000-05-01", time.Now().In(time.FixedZone("", 2*60*60))); got != "Bookings for 2000 open on Saturday, 1 January 2000 at 12:00." {
			t.Errorf("further east: got %q", got)
		}
		if got, at := a.Closed("2000-05", time.Now()); got == "" || !at.Equal(opens) {
			t.Errorf("a month: got %q, %v, want it closed until %v", got, at, opens)
		}
		for _, date := range []string{"1999-12-31", "2001-01-01", "2001", "", "20000-01-01"} {
			if got, _ := a.Closed(date, time.Now()); got != "" {
				t.Errorf("%s: got %q, want it open", date, got)
			}
		}
		time.Sleep(10*time.Hour - time.Nanosecond)
		wantSeason(t, announced, a, b)
		time.Sleep(time.Nanosecond)
		wantSeason(t, "", a, b)

		g := gate.At(s, "season-2000")
		for want, change := range map[string]func(context.Context, gate.Note) error{"Bookings for 2000 open soon.": g.Close, "": g.Open} {
			if err := change(t.Context(), gate.Note{}); err != nil {
				t.Fatal(err)
			}
			wantSeason(t, want, a, b)
		}
	})
}

// The setting never overrides what somebody has decided.
func TestSeasonLeavesTheGateToTheOperator(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(context.Context, *gate.Gate) error{
		announced: func(ctx context.Context, g *gate.Gate) error {
			return g.OpenAt(ctx, time.Now().Add(10*time.Hour), gate.Note{})
		},
		"Bookings for 2000 open soon.": func(ctx context.Context, g *gate.Gate) error { return g.Close(ctx, gate.Note{}) },
		"":                             func(ctx context.Context, g *gate.Gate) error { return g.Open(ctx, gate.Note{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := openStore(t)
			if err := change(t.Context(), gate.At(s, "season-2000")); err != nil {
				t.Fatal(err)
			}
			season := follow(t, s, time.Now().Add(time.Hour))
			wantSeason(t, want, season)
			time.Sleep(2 * time.Hour)
			wantSeason(t, want, season)
		})
	}
}

// While the store is away the season stays as it was. A season that has seen nothing yet is closed.
func TestSeasonWithoutAStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		file := openStore(t)
		s := storagetest.Intercept(file, func(_ context.Context, op storagetest.Op, do func() error) error {
			if down.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		early := follow(t, s, time.Time{})
		if err := gate.At(file, "season-2000").Open(t.Context(), gate.Note{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		down.Store(true)
		late := follow(t, s, time.Now().Add(time.Hour))
		time.Sleep(2 * time.Hour)
		wantSeason(t, "", early)
		wantSeason(t, "Bookings for 2000 open soon.", late)
		down.Store(false)
		time.Sleep(time.Minute)
		wantSeason(t, "", early, late)
	})
}

// A gate that somebody has broken is followed again once it is repaired.
func TestSeasonWithABrokenGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		season := follow(t, s, time.Now().Add(time.Hour))
		time.Sleep(2 * time.Hour)
		wantSeason(t, "", season)
		gates := s.Blobs("gates")
		if _, err := gates.Put(t.Context(), "season-2000", []byte("no gate"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		wantSeason(t, "", season)
		if err := gates.Delete(t.Context(), "season-2000", storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := gate.At(s, "season-2000").Close(t.Context(), gate.Note{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		wantSeason(t, "Bookings for 2000 open soon.", season)
	})
}
