package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// requestsContainer holds requests as they were sent, by reservations.Key.
const requestsContainer = "requests"

// errConflict says that another reservation has the ID.
var errConflict = errors.New("the ID is taken by another reservation")

type formPage struct {
	Title       string
	In          input
	Faults      reservations.Faults
	Wrong       []wrongField // the faults in order
	Notice      string       // in the fields' order
	Existing    string       // ID of a reservation that this form has made before
	SoldOut     bool
	First, Last string // dates that can be chosen
	Calendar    string // link for choosing another day
	MaxQuantity int
}

type wrongField struct{ Field, Text string }

// form shows the empty form. Its ID is made here, so that the form makes one reservation even when it is sent twice.
func (s *site) form(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	now := s.cfg.Now()
	p := formPage{In: input{ID: channel.NewID(), Date: r.URL.Query().Get("date"), Quantity: strconv.Itoa(min(2, s.cfg.Seats))}}
	if fault := (reservations.MakeReservation{Date: p.In.Date}).FaultsAt(now)["date"]; p.In.Date != "" && fault != "" {
		p.Faults = reservations.Faults{"date": fault}
	} else if p.Notice, _ = s.cfg.Season.Closed(p.In.Date, now); p.Notice == "" && p.In.Date != "" {
		month, _, err := s.month(ctx, reservations.MonthOf(p.In.Date)) // the form works without the note
		if err != nil {
			return err
		}
		p.SoldOut = slices.Contains(month.DisabledDays, p.In.Date)
	}
	s.showForm(w, r, http.StatusOK, p)
	return nil
}

func (s *site) showForm(w http.ResponseWriter, r *http.Request, status int, p formPage) {
	p.Title, p.Calendar = "Book a table", s.calendarFor(p.In.Date)
	p.First, p.Last = reservations.Bookable(s.cfg.Now())
	p.MaxQuantity = s.cfg.Seats
	for _, field := range fields {
		if text := p.Faults[field]; text != "" {
			p.Wrong = append(p.Wrong, wrongField{Field: field, Text: text})
		}
	}
	if len(p.Wrong) > 0 {
		p.Title = "Please look again" // what a screen reader says first
	}
	w.Header().Set("Cache-Control", "no-store") // the ID is for one person
	s.page(w, r, "form", status, p)
}

// book asks for a table.
func (s *site) book(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	in, faults, err := readInput(w, r)
	if err != nil {
		return err
	}
	m := in.reservation()
	in.ID = m.ID // a form that is shown and sent again asks for the same reservation
	now := s.cfg.Now()
	all := m.FaultsAt(now)
	if m.Quantity < 1 || m.Quantity > s.cfg.Seats {
		all["quantity"] = fmt.Sprintf("Choose 1 to %d seats.", s.cfg.Seats)
	}
	maps.Copy(all, faults)
	if len(all) > 0 {
		return s.refuse(w, r, in, &problem{Status: http.StatusUnprocessableEntity, Faults: all})
	}
	if sentence, opens := s.cfg.Season.Closed(m.Date, now); sentence != "" {
		if !opens.IsZero() {
			w.Header().Set("Retry-After", strconv.Itoa(int(opens.Sub(now).Seconds())+1))
		}
		return s.refuse(w, r, in, &problem{Status: http.StatusForbidden, Detail: sentence})
	}
	entry, err := s.limiters.admit(ctx, r, m)
	if x, ok := errors.AsType[*refused](err); ok {
		if wantsJSON(r) {
			x.limiter.ServeHTTP(w, r)
			return nil
		}
		x.limiter.SetFields(w.Header())
		return s.refuse(w, r, in, x.problem)
	}
	defer entry.end(throttle.Spent)
	kept, err := s.request(traced(ctx, r), m)
	switch {
	case errors.Is(err, errConflict):
		return s.refuse(w, r, in, &problem{Status: http.StatusConflict, Detail: "Another reservation has this ID. Use a new one."})
	case err != nil:
		return s.refuse(w, r, in, err)
	}

	entry.end(throttle.Accepted)

	receipt := receiptPath(m.ID)
	if kept {
		receipt += keptAsked
	}
	w.Header().Set("Cache-Control", "no-store")
	if !wantsJSON(r) {
		http.Redirect(w, r, receipt, http.StatusSeeOther)
		return nil
	}
	w.Header().Set("Location", receipt)
	entry.address.SetFields(w.Header())
	entry.mail.SetFields(w.Header())
	writeJSON(w, "application/json", http.StatusAccepted, asked{m.ID, reservations.Pending, kept})
	return nil
}

// refuse answers with a problem: a person gets the form back as they filled it in.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, in input, err error) error {
	if wantsJSON(r) {
		return err
	}
	p := s.report(w, r, err)
	page := formPage{In: in, Faults: p.Faults}
	switch {
	case p.Status == http.StatusConflict:
		// The form was sent, changed and sent again, perhaps after going back. The person may want a second
		// reservation.
		page.Existing, page.In.ID = in.ID, channel.NewID()
	case p.Faults["id"] != "":
		// Nobody types an ID: the page was open for days, or somebody is experimenting.
		page.In.ID = channel.NewID()
		delete(p.Faults, "id")
		page.Notice = "This page was open for a long time. Please check your entries and send them again."
	case p.Status == http.StatusServiceUnavailable, p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests:
		page.Notice = p.Detail + " Your entries are still here."
	}
	s.showForm(w, r, p.Status, page)
	return nil
}

// request stores the request and sends the command, as one unit of work. A repeated request is harmless, and is sent
// again: where the store is not atomic, the first attempt may have ended between the two steps.
//
// If the store is away and the program has a spool, the command alone is sent, which the spool keeps. kept says that
// the request may have no document. A second request with its ID is not compared with it, then; if it is another one,
// the worker refuses it.
func (s *site) request(ctx context.Context, m reservations.MakeReservation) (kept bool, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("request: %w", err)
	}
	first, cancel := short(ctx, s.spools)
	defer cancel()
	_, err = s.makes.SendWith(first, storage.Write{
		Container: requestsContainer, Key: reservations.Key(m.ID), Body: body, If: storage.Condition{IfAbsent: true},
	}, m)
	if storage.LostRace(err) {
		var before reservations.MakeReservation
		before, err = s.requested(first, reservations.Key(m.ID))
		switch {
		case err == nil && before != m:
			return false, errConflict
		case err == nil:
			return false, s.makes.Send(ctx, m)
		}
	}
	if err == nil || !s.spools || !isAway(err) {
		return false, err
	}
	return true, s.makes.Send(ctx, m)
}

// requested reads a request by its key; storage.ErrNotFound if there is none.
func (s *site) requested(ctx context.Context, key string) (m reservations.MakeReservation, err error) {
	blob, err := s.requests.Get(ctx, key, "")
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(blob.Body, &m); err != nil {
		return m, fmt.Errorf("request: %w", err)
	}
	return m, nil
}
