package site

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// found is what everybody may know of a reservation. A number is short and can be guessed, so it gives no right: the
// answer has no name, and no ID, which is the right to cancel.
type found struct {
	Number   string             `json:"number"`
	Date     string             `json:"date"`
	Quantity int                `json:"quantity"`
	Status   reservations.State `json:"status"`
}

type findPage struct {
	Title string
	Asked string // as it was typed
	Fault string
	Found *found // nil for the form alone
}

// find tells the state of the reservation with a number. A person without a number gets the form.
func (s *site) find(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	asked := strings.TrimSpace(r.URL.Query().Get("number"))
	w.Header().Set("Cache-Control", "no-store")
	if asked == "" && !wantsJSON(r) {
		s.page(w, r, "found", http.StatusOK, findPage{Title: "Find a reservation"})
		return nil
	}
	var status reservations.Status
	number, key, err := numbered(ctx, s.numbers, asked)
	if err == nil {
		status, err = s.status(ctx, key, "number")
	}
	f := found{Number: number, Date: status.Date, Quantity: status.Quantity, Status: status.Status}
	var p *problem
	switch {
	case errors.As(err, &p) && !wantsJSON(r):
		s.page(w, r, "found", p.Status, findPage{Title: "Find a reservation", Asked: asked, Fault: p.Detail})
	case err != nil:
		return err
	case wantsJSON(r):
		writeJSON(w, "application/json", http.StatusOK, f)
	default:
		s.page(w, r, "found", http.StatusOK, findPage{Title: "Reservation No. " + number, Found: &f})
	}
	return nil
}

// numbered reads a number as people write it, "1042-9" or "No. 1042-9", and finds the key of its reservation.
func numbered(ctx context.Context, numbers *storage.Table, asked string) (number, key string, err error) {
	if len(asked) >= 3 && strings.EqualFold(asked[:3], "No.") {
		asked = asked[3:]
	}
	n, err := ids.Parse(asked)
	if err != nil {
		return "", "", &problem{Status: http.StatusUnprocessableEntity, Detail: "This can't be a number of ours: perhaps a digit was mistyped. A number looks like 1042-9."}
	}
	number = ids.Format(n)
	key, err = reservations.Numbered(ctx, numbers, number)
	if errors.Is(err, storage.ErrNotFound) {
		err = unknown("number")
	}
	return number, key, err
}
