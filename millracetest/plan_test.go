package millracetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// A trip is booked: a seat is reserved and paid for, the bags are labelled, and the traveller checks in.

type trip struct {
	Seat    string   `json:"seat"`
	Bags    []string `json:"bags"`
	Ticket  string   `json:"ticket,omitempty"`
	Labels  int      `json:"labels"`
	Checked bool     `json:"checked"`
}

type (
	takeSeat  struct{ Seat string }
	freeSeat  struct{ Seat string }
	seatTaken struct{ Seat string }
	checkedIn struct{ By string }
)

func (takeSeat) Kind() channel.Kind  { return "kit.takeseat.v1" }
func (freeSeat) Kind() channel.Kind  { return "kit.freeseat.v1" }
func (seatTaken) Kind() channel.Kind { return "kit.seattaken.v1" }
func (checkedIn) Kind() channel.Kind { return "kit.checkedin.v1" }

// airline are the agents of the plan as production has them. Tests of the plan don't reach them.
type airline struct{}

func (airline) sell(context.Context, trip) (string, error) { return "", errors.New("no airline here") }
func (airline) refund(context.Context, trip, string) error { return errors.New("no airline here") }
func (airline) label(context.Context, string) (string, error) {
	return "", errors.New("no airline here")
}

func (a airline) book(p *process.Plan[trip]) {
	hold := process.Ask(p, "reserve", func(t trip) takeSeat { return takeSeat{t.Seat} }, func(t trip, _ seatTaken) trip { return t })
	process.UndoAsk(hold, func(t trip) freeSeat { return freeSeat{t.Seat} })
	process.Do(p, "sell", a.sell, func(t trip, ticket string) trip { t.Ticket = ticket; return t }).Undo(a.refund)
	process.Each(p, "label", func(t trip) []string { return t.Bags }, a.label, func(t trip, _ string) trip { t.Labels++; return t })
	process.Wait(p, "check in", func(t trip, _ checkedIn) trip { t.Checked = true; return t }).Within(48 * time.Hour)
}

func agents(journal *[]string) millracetest.Agents {
	note := func(s string) { *journal = append(*journal, s) }
	return millracetest.Agents{
		"reserve":      func(c takeSeat) channel.Message { note("take " + c.Seat); return seatTaken(c) },
		"undo reserve": func(c freeSeat) channel.Message { note("free " + c.Seat); return nil },
		"sell": func(ctx context.Context, t trip) (string, error) {
			if process.Attempt(ctx) < 3 {
				return "", errors.New("busy")
			}
			note("sell")
			return "t-" + t.Seat, nil
		},
		"undo sell": func(_ context.Context, _ trip, ticket string) error { note("refund " + ticket); return nil },
		"label":     func(_ context.Context, bag string) (string, error) { return "label of " + bag, nil },
	}
}

// The agents of a test stand in for those of the plan, by the names of the steps. Days pass in milliseconds, and the
// timeline is a text that a test can compare.
func TestPlan(t *testing.T) {
	t.Parallel()
	var journal []string
	p := millracetest.Plan("trips", airline{}.book, agents(&journal))
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		trips := process.Open[trip](app.Channels(), "trips")
		for _, id := range []string{"ada", "bob"} {
			if err := trips.Start(t.Context(), id, trip{Seat: "12" + id[:1], Bags: []string{"red", "blue"}}); err != nil {
				t.Fatal(err)
			}
		}
		app.Drain()
		if err := trips.Signal(t.Context(), "ada", checkedIn{"ada"}); err != nil {
			t.Fatal(err)
		}
		app.Advance(49 * time.Hour)
		wantText(t, millracetest.Timeline(t, app.Store(), "trips", "ada"), `
ada completed 0s to 3s
01 reserve  completed 0s
02 sell     completed 0s to 3s, attempt 3
03 label    completed 3s, 2 items
04 check in completed 3s
`)
		wantText(t, millracetest.Timeline(t, app.Store(), "trips", "bob"), `
bob aborted 0s to 48h0m3s: no end within 48h0m0s
01 reserve  undone    0s, undone 48h0m3s
02 sell     undone    0s to 3s, attempt 3, undone 48h0m3s
03 label    completed 3s, 2 items
04 check in aborted   3s to 48h0m3s: no end within 48h0m0s
`)
		s, err := trips.Get(t.Context(), "ada")
		if err != nil || s.State.Ticket != "t-12a" || s.State.Labels != 2 || !s.State.Checked {
			t.Errorf("got %+v, %v", s.State, err)
		}
	})
	if got, want := strings.Join(journal[len(journal)-2:], ", "), "refund t-12b, free 12b"; got != want {
		t.Errorf("undone: got %s, want %s", got, want)
	}
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
