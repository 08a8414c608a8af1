package site

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
)

const monthLayout = "2006-01"

type calendarPage struct {
	Title          string
	Month          string     // "December 2026"
	Season         string     // why no day of the month can be booked yet
	Blind          bool       // which days are sold out can't be known now
	Previous, Next *monthLink // nil where the calendar ends
	Weeks          [][7]calendarDay
}

type monthLink struct{ Month, Name string }

type calendarDay struct {
	Number  int    // 0 for a day of another month
	Date    string // 2026-12-24
	Today   bool
	SoldOut bool
	Closed  bool // past, or too far ahead
}

// calendar shows a month. It serves only months with a day to book, so that nobody can walk into the year 9999, or
// fill the view's cache on the way.
func (s *site) calendar(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	now := s.cfg.Now()
	first, last := reservations.Bookable(now)
	month := reservations.MonthOf(first)
	if asked := r.URL.Query().Get("month"); asked != "" {
		if !reservations.ValidMonth(asked) || asked < month || asked > reservations.MonthOf(last) {
			return &problem{Status: http.StatusNotFound, Detail: "We have no calendar for that month."}
		}
		month = asked
	}
	view, blind, err := s.month(ctx, month)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	p := newCalendar(month, first, last, view)
	p.Blind = blind
	p.Season, _ = s.cfg.Season.Closed(month, now)
	s.page(w, r, "calendar", http.StatusOK, p)
	return nil
}

// calendarFor returns the address of the calendar with a date, or of the present month if no month has the date.
func (s *site) calendarFor(date string) string {
	first, last := reservations.Bookable(s.cfg.Now())
	if month := reservations.MonthOf(date); month > reservations.MonthOf(first) && month <= reservations.MonthOf(last) && reservations.ValidMonth(month) {
		return "/?month=" + month
	}
	return "/"
}

// newCalendar arranges a month in weeks that begin on Monday. The month must be valid.
func newCalendar(month, first, last string, view reservations.Month) calendarPage {
	start, _ := time.Parse(monthLayout, month)
	p := calendarPage{Title: "Choose a day", Month: start.Format("January 2006")}
	link := func(t time.Time) *monthLink {
		m := t.Format(monthLayout)
		if m < reservations.MonthOf(first) || m > reservations.MonthOf(last) {
			return nil
		}
		return &monthLink{Month: m, Name: t.Format("January 2006")}
	}
	p.Previous, p.Next = link(start.AddDate(0, -1, 0)), link(start.AddDate(0, 1, 0))

	for t := start; t.Month() == start.Month(); t = t.AddDate(0, 0, 1) {
		weekday := (int(t.Weekday()) + 6) % 7 // Monday is 0
		if weekday == 0 || t.Day() == 1 {
			p.Weeks = append(p.Weeks, [7]calendarDay{})
		}
		date := t.Format(time.DateOnly)
		p.Weeks[len(p.Weeks)-1][weekday] = calendarDay{
			Number: t.Day(), Date: date,
			Today:   date == first,
			Closed:  date < first || date > last,
			SoldOut: slices.Contains(view.DisabledDays, date),
		}
	}
	return p
}

// monthView serves the view as JSON.
func (s *site) monthView() http.HandlerFunc {
	type body struct {
		Month        string   `json:"month"`
		DisabledDays []string `json:"disabledDays"`
	}
	months := s.months.Server(func(key string, m reservations.Month) any {
		return body{Month: key, DisabledDays: m.DisabledDays}
	})
	read := s.serve(func(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
		month := r.PathValue("month")
		if !reservations.ValidMonth(month) {
			return &problem{Status: http.StatusNotFound, Detail: "A month looks like 2026-12."}
		}
		return months.Serve(ctx, w, r, month)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if !months.ServeCached(w, r, r.PathValue("month")) { // only a valid month gets here, and the cache needs no timeout
			read(w, r)
		}
	}
}
