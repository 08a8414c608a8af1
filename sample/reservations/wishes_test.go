package reservations_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/sample/reservations"
)

// png is a picture of one point, and pdf a document.
var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")
	pdf = []byte("%PDF-1.7\n1 0 obj\n<<>>\nendobj\n")
)

// A diner is the guest of a reservation, who adds wishes to it.
type diner struct {
	t     *testing.T
	app   *millracetest.App
	files *valet.Valet
	id    string
}

// atATable runs a test for an accepted reservation.
func atATable(t *testing.T, date string, test func(w *diner)) {
	t.Helper()
	var mails outbox
	millracetest.Run(t, program(&mails), func(t *testing.T, app *millracetest.App) {
		files, err := reservations.Files(app.Channels(), valet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		app.Send(made("reservation-a", date, 2))
		app.Drain()
		test(&diner{t, app, files, "reservation-a"})
	})
}

func (w *diner) status() reservations.Status {
	w.t.Helper()
	return millracetest.View(w.t, reservations.Statuses(w.app.Channels()), reservations.Key(w.id))
}

// begin asks for the key of an upload.
func (w *diner) begin(name, kind string, content []byte) valet.Key {
	w.t.Helper()
	w.app.Advance(time.Second) // the order of uploads is that of their times
	key, err := w.files.Upload(w.t.Context(), reservations.UploadOf(w.status(), valet.Upload{Name: name, Type: kind, Size: int64(len(content))}))
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// add uploads a file.
func (w *diner) add(name, kind string, content []byte) (id string) {
	w.t.Helper()
	key := w.begin(name, kind, content)
	millracetest.Upload(w.t, w.files, key, content)
	w.app.Drain()
	return key.ID
}

// clean are the IDs of the files that can be read on any date.
func (w *diner) clean() (ids []string) {
	w.t.Helper()
	for f, err := range w.files.List(w.t.Context(), "", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if f.State == valet.StateClean {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

func (w *diner) wantClean(ids ...string) {
	w.t.Helper()
	if got := w.clean(); !slices.Equal(got, ids) {
		w.t.Errorf("files: got %q, want %q", got, ids)
	}
}

// A wish stands in the status once it was checked. The next one replaces it, and what isn't accepted doesn't.
func TestWishes(t *testing.T) {
	t.Parallel()
	atATable(t, "2026-12-24", func(w *diner) {
		first := w.add("cake.png", "image/png", png)
		if got, want := w.status().Wish, (reservations.Wish{File: first, Name: "cake.png", Type: "image/png"}); got != want {
			w.t.Errorf("the first: got %+v, want %+v", got, want)
		}
		second := w.add("menu.pdf", "application/pdf", pdf)
		w.wantClean(second)
		bad := w.add("song.png", "image/png", pdf)
		got := w.status()
		if got.Wish.File != second || got.Wish.Refused != bad || !strings.Contains(got.Wish.Reason, "application/pdf") || got.Status != reservations.Accepted {
			w.t.Errorf("after a file that isn't what it says: got %+v", got)
		}
		w.wantClean(second)
	})
}

// Of two uploads at the same time, the one that began last counts, whichever ends first.
func TestTwoWishesAtOnce(t *testing.T) {
	t.Parallel()
	atATable(t, "2026-12-24", func(w *diner) {
		older := w.begin("older.png", "image/png", png)
		newer := w.add("newer.png", "image/png", png)
		millracetest.Upload(w.t, w.files, older, png)
		w.app.Drain()
		w.wantClean(newer)
		if got := w.status().Wish; got.File != newer {
			w.t.Errorf("got %+v, want %s", got, newer)
		}
	})
}

// A cancelled reservation keeps its wish, which nobody sees. The archive of the date deletes it with all others.
func TestTheArchiveDeletesWishes(t *testing.T) {
	t.Parallel()
	const date, later = "2001-02-20", "2001-02-21"
	atATable(t, date, func(w *diner) {
		w.add("cake.png", "image/png", png)
		w.app.Send(reservations.CancelReservation{ID: w.id, Date: date})
		w.app.Drain()
		if got := w.status(); got.Status != reservations.Cancelled || got.Wish.File == "" {
			w.t.Errorf("cancelled: got %+v", got)
		}
		w.app.Send(made("reservation-b", date, 2), made("reservation-c", later, 2))
		w.app.Drain()
		w.id = "reservation-b"
		w.add("b.pdf", "application/pdf", pdf)
		open := w.begin("open.png", "image/png", png)
		w.id = "reservation-c"
		kept := w.add("c.png", "image/png", png)
		w.app.Send(reservations.ArchiveDate{Date: date})
		w.app.Drain()
		w.wantClean(kept)
		if f, err := w.files.File(w.t.Context(), open.ID); err != nil || f.State != valet.StateRevoked {
			w.t.Errorf("an upload that was open: got %+v, %v, want it revoked", f, err)
		}
		w.app.Advance(time.Hour)
		for _, container := range []string{"file-inbox", "file-store"} {
			for f, err := range w.files.List(w.t.Context(), date+"/", "") {
				parts, partsErr := w.app.Store().Files(container).Parts(w.t.Context(), f.ID)
				if err != nil || partsErr != nil || len(parts) > 0 {
					w.t.Errorf("%s has %v of %s (%v, %v)", container, parts, f.ID, err, partsErr)
				}
			}
		}
	})
}

// No name that logs may hold has the reservation's ID, which is the right to cancel.
func TestWishesDontTellTheID(t *testing.T) {
	t.Parallel()
	u := reservations.UploadOf(reservations.Status{ID: "reservation-a", Date: "2026-12-24"}, valet.Upload{})
	if text := u.Owner + u.Folder + u.For; strings.Contains(text, "reservation-a") || !strings.Contains(u.Folder, u.Owner) {
		t.Errorf("got %+v", u)
	}
}
