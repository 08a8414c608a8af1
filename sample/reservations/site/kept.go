package site

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// keptAsked marks the address of a receipt whose request is kept in the spool of a web, or was sent without its
// document: no web finds it in the store before it is decided. The mark only says that the request was accepted, so it
// gives nobody a right. It works on every web with a spool.
const keptAsked = "?kept=1"

// shortTry bounds a call of the store that has a substitute.
const shortTry = 2 * time.Second

var errSlow = fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, shortTry)

// short returns a context for such a call, if there is a spool.
func short(ctx context.Context, spools bool) (context.Context, context.CancelFunc) {
	if !spools {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, shortTry, errSlow)
}

// month returns a month of the calendar. blind says that it can't be read now, and that requests are taken
// nevertheless.
func (x *reader) month(ctx context.Context, month string) (view reservations.Month, blind bool, err error) {
	ctx, cancel := short(ctx, x.spools)
	defer cancel()
	view, err = x.months.Get(ctx, month)
	if x.spools && isAway(err) {
		return reservations.Month{}, true, nil
	}
	return view, false, err
}

// A reader reads the calendar.
type reader struct {
	months *views.View[reservations.Month]
	spools bool // commands are kept while the store is away
}

// isAway reports that an error says that the store is away.
func isAway(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled)
}

// keptReceipt returns what is known of a request that was kept: that there is one.
func keptReceipt(r *http.Request, err error) (status reservations.Status, ok bool) {
	var p *problem
	id := r.PathValue("id")
	missing := errors.As(err, &p) && p.Status == http.StatusNotFound
	if "?"+r.URL.RawQuery != keptAsked || !missing && !isAway(err) || !reservations.ValidID(id) {
		return status, false
	}
	return reservations.Status{ID: id, Status: reservations.Pending}, true
}

// showKept shows the receipt of a request that was kept.
func (a *answers) showKept(w http.ResponseWriter, r *http.Request, status reservations.Status) {
	w.Header().Set("Cache-Control", "no-store")
	if wantsJSON(r) {
		writeJSON(w, "application/json", http.StatusOK, asked{status.ID, status.Status, true})
		return
	}
	a.page(w, r, "kept", http.StatusOK, receiptPage{Title: "We have your request", Status: status, Self: receiptPath(status.ID) + keptAsked})
}

// asked is the answer to a request for a table, for programs.
type asked struct {
	ID     string             `json:"id"`
	Status reservations.State `json:"status"`
	Kept   bool               `json:"kept,omitempty"` // it is handled when the store is back
}
