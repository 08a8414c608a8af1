package site_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

func TestCancel(t *testing.T) { onEachStore(t, cancel) }

func cancel(t *testing.T, s *stack) {
	s.work()
	id := channel.NewID()
	path := "/reservations/" + id
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	s.becomes(path, reservations.Accepted)

	a := s.do("POST", path+"/cancel", nil, "Accept", "application/json").want(t, http.StatusAccepted, "Content-Type", "application/json")
	if got := decode[reservations.Status](t, a); got.ID != id || got.Quantity != 4 {
		t.Errorf("receipt: got %+v", got)
	}
	s.becomes(path, reservations.Cancelled)
	s.do("POST", path+"/cancel", nil, "Accept", "application/json").want(t, http.StatusAccepted).has(t, `"cancelled"`)
	s.do("POST", path+"/cancel", nil).want(t, http.StatusAccepted).has(t, "Your reservation is cancelled")
	s.get(path+"/cancel").want(t, http.StatusSeeOther, "Location", path) // a browser that reloads
	eventually(t, "two mails", func() bool {
		return slices.Equal(s.mails.subjects(), []string{"Your reservation is cancelled", "Your table is booked"})
	})

	s.do("POST", "/reservations/"+channel.NewID()+"/cancel", nil).want(t, http.StatusNotFound)
}

func TestCancelBeforeTheDecision(t *testing.T) { onEachStore(t, cancelBeforeTheDecision) }

func cancelBeforeTheDecision(t *testing.T, s *stack) {
	id := channel.NewID()
	path := "/reservations/" + id
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	for range 2 {
		s.do("POST", path+"/cancel", strings.NewReader(""), "Content-Type", "application/x-www-form-urlencoded").want(t, http.StatusAccepted).
			has(t, "Cancelling your reservation", path+"?cancel=asked", `data-events="`+path+`/events"`)
	}
	s.get(path+"?cancel=asked").want(t, http.StatusOK).has(t, "Cancelling your reservation")
	s.work()
	s.becomes(path, reservations.Cancelled)
	s.get(path+"?cancel=asked").want(t, http.StatusOK).has(t, "Your reservation is cancelled")
	eventually(t, "the ledger has no row", func() bool { // its queue is separate
		for range reservations.NewLedger(s.store, nil).On(t.Context(), in(3)) {
			return false
		}
		return true
	})
}

// A reservation whose day is over can't be cancelled. A cancellation that was sent before, and comes after the date is
// closed, is refused, and the receipt says why.
func TestCancelWhenTheDayIsOver(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	s := newStack(t, site.Config{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	s.work()
	id := channel.NewID()
	path := "/reservations/" + id
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	s.becomes(path, reservations.Accepted)
	s.get(path).has(t, "Cancel this reservation")

	later.Store(int64(5 * 24 * time.Hour))
	if page := s.get(path).want(t, http.StatusOK); strings.Contains(page.body, "Cancel this reservation") {
		t.Errorf("the receipt offers to cancel: %s", page.body)
	}
	s.do("POST", path+"/cancel", nil, "Accept", "application/json").want(t, http.StatusConflict).has(t, "That day is over.")

	later.Store(0)
	for _, m := range []channel.Message{reservations.CloseDate{Date: in(3)}, reservations.CancelReservation{ID: id, Date: in(3)}} {
		if err := s.channels.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command is decided", func() bool {
			d, err := reservations.Capacities(s.channels, 40).Get(t.Context(), in(3), "")
			return err == nil && d.Value.Closed
		})
	}
	eventually(t, "the receipt says why", func() bool {
		return strings.Contains(s.get(path+"?cancel=asked").body, "That day is over. The reservation can't be cancelled any more.")
	})
}
