package site

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

type receiptPage struct {
	Title string
	reservations.Status
	Cancelling bool   // a cancellation was requested and is not decided
	Over       bool   // the day is over, so nothing can be cancelled
	Self       string // where this page can be loaded again
	Events     string // address of the event stream; empty when no change is expected
	Calendar   string // link for choosing another day
	Script     bool   // the page has what uploads a wish, now or once the reservation is accepted
	TakesWish  bool
}

// cancelAsked marks the address of a receipt whose owner has just asked to cancel. It only changes the page's text
// during the wait.
const cancelAsked = "?cancel=asked"

func (s *site) receipt(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	if "?"+r.URL.RawQuery == keptAsked {
		var cancel context.CancelFunc
		ctx, cancel = short(ctx, s.spools)
		defer cancel()
	}
	status, err := s.lookup(ctx, r.PathValue("id"))
	if kept, ok := keptReceipt(r, err); s.spools && ok {
		s.showKept(w, r, kept)
		return nil
	}
	if err != nil {
		return err
	}
	s.showReceipt(w, r, http.StatusOK, status, "?"+r.URL.RawQuery == cancelAsked)
	return nil
}

func (s *site) showReceipt(w http.ResponseWriter, r *http.Request, code int, status reservations.Status, cancelling bool) {
	w.Header().Set("Cache-Control", "no-store")
	if wantsJSON(r) {
		writeJSON(w, "application/json", code, status)
		return
	}
	p := receiptPage{Title: titles[status.Status], Status: status, Self: receiptPath(status.ID), Calendar: s.calendarFor(status.Date)}
	p.Over = over(status, s.cfg.Now())
	if cancelling && !status.Status.Final() && status.Reason == "" {
		p.Title, p.Cancelling, p.Self = "Cancelling your reservation", true, p.Self+cancelAsked
	}
	if p.Cancelling || status.Status == reservations.Pending {
		p.Events = receiptPath(status.ID) + "/events"
	}
	if !p.Cancelling && s.mayWish(status) && s.allowFiles(w, r) {
		p.Script, p.TakesWish = true, status.Status == reservations.Accepted
	}
	s.page(w, r, "receipt", code, p)
}

var titles = map[reservations.State]string{
	reservations.Pending:   "One moment",
	reservations.Accepted:  "Your table is booked",
	reservations.Rejected:  "We have no table for you",
	reservations.Cancelled: "Your reservation is cancelled",
}

// cancel asks to give the seats back. The ID is the right to do so. The command is sent only for a reservation that
// somebody asked for and that may hold seats, now or once it is decided. So strangers can't fill the value object
// with cancellations of nothing.
func (s *site) cancel(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	status, err := s.lookup(ctx, r.PathValue("id"))
	if err != nil {
		return err
	}
	if !status.Status.Final() {
		if over(status, s.cfg.Now()) {
			return &problem{Status: http.StatusConflict, Detail: "That day is over. The reservation can't be cancelled any more."}
		}
		if err := s.cancels.Send(traced(ctx, r), reservations.CancelReservation{ID: status.ID, Date: status.Date}); err != nil {
			return err
		}
	}
	s.showReceipt(w, r, http.StatusAccepted, status, true)
	return nil
}

// over reports whether the day of a reservation is over.
func over(status reservations.Status, now time.Time) bool {
	return status.Date < now.Format(time.DateOnly)
}

// afterCancel is for a browser that reloads the answer to its cancellation.
func (s *site) afterCancel(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, receiptPath(r.PathValue("id")), http.StatusSeeOther)
}

// lookup returns the state of a reservation: the view's, or before anything is decided, the stored request.
func (s *site) lookup(ctx context.Context, id string) (reservations.Status, error) {
	if !reservations.ValidID(id) {
		return reservations.Status{}, unknown("ID")
	}
	return s.status(ctx, reservations.Key(id), "ID")
}

func unknown(what string) error {
	return &problem{Status: http.StatusNotFound, Detail: "We know no reservation with this " + what + "."}
}

// status returns the state of a reservation by its key. The person knows the reservation by what.
func (s *site) status(ctx context.Context, key, what string) (reservations.Status, error) {
	status, _, err := s.statuses.GetFresh(ctx, key)
	if err != nil || status.Status != "" {
		return status, err
	}
	m, err := s.requested(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return status, unknown(what)
	case err != nil:
		return status, err
	}
	return reservations.Status{ID: m.ID, Date: m.Date, Name: m.Name, Quantity: m.Quantity, Status: reservations.Pending}, nil
}
