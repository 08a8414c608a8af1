package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

func TestCalendarLayout(t *testing.T) {
	t.Parallel()
	first, last := "2026-11-20", "2027-11-20"
	p := newCalendar("2026-11", first, last, reservations.Month{DisabledDays: []string{"2026-11-24"}})
	if p.Month != "November 2026" || p.Previous != nil || p.Next == nil || p.Next.Month != "2026-12" {
		t.Errorf("head: got %+v", p)
	}
	if got, want := len(p.Weeks), 6; got != want { // November 2026 begins on a Sunday
		t.Fatalf("weeks: got %d, want %d", got, want)
	}
	for _, test := range []struct {
		week, weekday int
		want          calendarDay
	}{
		{0, 5, calendarDay{}},
		{0, 6, calendarDay{Number: 1, Date: "2026-11-01", Closed: true}},
		{3, 3, calendarDay{Number: 19, Date: "2026-11-19", Closed: true}},
		{3, 4, calendarDay{Number: 20, Date: "2026-11-20", Today: true}},
		{4, 1, calendarDay{Number: 24, Date: "2026-11-24", SoldOut: true}},
		{5, 0, calendarDay{Number: 30, Date: "2026-11-30"}},
		{5, 1, calendarDay{}},
	} {
		if got := p.Weeks[test.week][test.weekday]; got != test.want {
			t.Errorf("week %d, day %d: got %+v, want %+v", test.week, test.weekday, got, test.want)
		}
	}
	p = newCalendar("2027-11", first, last, reservations.Month{})
	if p.Next != nil || p.Previous.Month != "2027-10" || !p.Weeks[2][6].Closed || p.Weeks[2][5].Closed {
		t.Errorf("the last month: got %+v", p)
	}
	if got := len(newCalendar("2027-02", first, last, reservations.Month{}).Weeks); got != 4 { // 28 days from a Monday
		t.Errorf("weeks of February 2027: got %d, want 4", got)
	}
}

func TestWantsJSON(t *testing.T) {
	t.Parallel()
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	for _, test := range []struct {
		accept, contentType string
		want                bool
	}{
		{"", "", false}, {"*/*", "", false}, {browser, "", false}, {"text/event-stream", "", false}, {"nonsense", "", false},
		{"application/json", "", true}, {"application/problem+json", "", true}, {"application/*", "", true},
		{"application/json, text/html;q=0.9", "", true}, {"text/html, application/json;q=0.9", "", false},
		{"application/json;q=0, */*", "", false}, {"application/json;q=x", "", false},
		{"*/*", "application/json", true}, {browser, "application/json; charset=utf-8", true}, {browser, "application/x-www-form-urlencoded", false},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Accept", test.accept)
		r.Header.Set("Content-Type", test.contentType)
		if got := wantsJSON(r); got != test.want {
			t.Errorf("Accept %q, Content-Type %q: got %v", test.accept, test.contentType, got)
		}
	}
}

// A command that refuses itself when it is sent gives the problem that the form's own checks give.
func TestRefusedCommandIsAProblem(t *testing.T) {
	t.Parallel()
	m := reservations.MakeReservation{Date: "24 Dec", Quantity: 1}
	sent, checked := httptest.NewRecorder(), httptest.NewRecorder()
	writeProblem(sent, asProblem(fmt.Errorf("channel: send: %w: %w", channel.ErrRefused, m.Check())))
	writeProblem(checked, asProblem(&problem{Status: http.StatusUnprocessableEntity, Faults: m.Faults()}))
	if sent.Code != http.StatusUnprocessableEntity || sent.Body.String() != checked.Body.String() || !strings.Contains(sent.Body.String(), "#/date") {
		t.Errorf("got %d %s, want %s", sent.Code, sent.Body, checked.Body)
	}
}

func TestFailuresAreLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	var n notes
	now := time.Now()
	take := func(route string, after time.Duration) string {
		silent, ok := n.take(route, now.Add(after))
		return fmt.Sprint(silent, ok)
	}
	for _, test := range []struct {
		route string
		after time.Duration
		want  string
	}{
		{"GET /", 0, "0 true"},
		{"GET /", 0, "0 false"},
		{"POST /reservations", 0, "0 true"}, // another route, which may fail for another reason
		{"GET /", noteEvery - 1, "0 false"},
		{"GET /", noteEvery, "2 true"},
		{"GET /", noteEvery + 1, "0 false"},
		{"GET /", time.Hour, "1 true"},
		{"POST /reservations", time.Hour, "0 true"},
	} {
		if got := take(test.route, test.after); got != test.want {
			t.Errorf("%s after %v: got %s, want %s", test.route, test.after, got, test.want)
		}
	}
}

// TestFollow runs an event stream in virtual time.
func TestFollow(t *testing.T) {
	t.Parallel()
	pending := reservations.Status{ID: "reservation-a", Status: reservations.Pending}
	state := func(s reservations.State) reservations.Status {
		return reservations.Status{ID: pending.ID, Status: s}
	}
	run := func(t *testing.T, f func(t *testing.T, ctx context.Context, written *bytes.Buffer, follow func(look func() (reservations.Status, error)) error)) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var written bytes.Buffer
			f(t, ctx, &written, func(look func() (reservations.Status, error)) error {
				return follow(ctx, nil, pending, look, func(text string) error { written.WriteString(text); return nil })
			})
		})
	}

	t.Run("tells each change once and ends with the final one", func(t *testing.T) {
		run(t, func(t *testing.T, _ context.Context, written *bytes.Buffer, follow func(func() (reservations.Status, error)) error) {
			began := time.Now()
			err := follow(func() (reservations.Status, error) {
				switch age := time.Since(began); {
				case age < 3*time.Second:
					return pending, nil
				case age < 5*time.Second:
					return state(reservations.Accepted), nil
				}
				return state(reservations.Cancelled), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for text, want := range map[string]int{`"pending"`: 1, `"accepted"`: 1, `"cancelled"`: 1, "event: status\n": 3, "retry: 2000\n": 1} {
				if got := strings.Count(written.String(), text); got != want {
					t.Errorf("%s: got %d times, want %d:\n%s", text, got, want, written)
				}
			}
			if late := time.Since(began) - 5*time.Second; late > lastLook {
				t.Errorf("told the last change %v late", late)
			}
		})
	})
	t.Run("beats, seldom looks, and ends with its time", func(t *testing.T) {
		run(t, func(t *testing.T, _ context.Context, written *bytes.Buffer, follow func(func() (reservations.Status, error)) error) {
			looks := 0
			err := follow(func() (reservations.Status, error) { looks++; return pending, nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if got := strings.Count(written.String(), ": still here\n\n"); got < 3 {
				t.Errorf("heartbeats in a minute: got %d", got)
			}
			if looks > 75 {
				t.Errorf("looks in a minute: got %d", looks)
			}
		})
	})
	t.Run("ends when the store fails", func(t *testing.T) {
		run(t, func(t *testing.T, _ context.Context, _ *bytes.Buffer, follow func(func() (reservations.Status, error)) error) {
			if err := follow(func() (reservations.Status, error) { return pending, storage.ErrUnavailable }); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Seats: -1}, {StreamFor: -1}, {MaxStreams: -1}, {Timeout: -1}} {
		if _, err := New(nil, cfg); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}
