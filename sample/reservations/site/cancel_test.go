package site_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
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
		for range reservations.NewLedger(s.store).On(t.Context(), in(3)) {
			return false
		}
		return true
	})
}
