package site_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// newSeason returns a site on the store in a file, and the gate of the season that has the date in three days.
func newSeason(t *testing.T, file string, opens time.Time) (*stack, *gate.Gate) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	year, err := strconv.Atoi(in(3)[:4])
	if err != nil {
		t.Fatal(err)
	}
	season, err := reservations.NewSeason(store, year, opens, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := newStackOn(t, store, site.Config{Season: season})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- season.Follow(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, gate.At(store, "season-"+in(3)[:4])
}

// Before its opening a season can't be booked, and all pages say when it opens. Nobody loses what was typed. When it
// opens, all sites take bookings.
func TestSeason(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	opens := time.Now().Add(48 * time.Hour)
	a, g := newSeason(t, file, opens)
	b, _ := newSeason(t, file, opens)
	day, year := in(3), in(3)[:4]
	sentence := "Bookings for " + year + " open on " + opens.Format("Monday, 2 January 2006 at 15:04") + "."
	for _, s := range []*stack{a, b} {
		eventually(t, "the opening is announced", func() bool {
			return s.postJSON(body(channel.NewID(), day, 2)).Header.Get("Retry-After") != ""
		})
	}
	calendar := a.get("/?month="+day[:7]).want(t, http.StatusOK).has(t, sentence, `<span class="day closed" data-date="`+day+`">`)
	if strings.Contains(calendar.body, `<a class="day"`) {
		t.Errorf("a day of the season can be chosen:\n%s", calendar.body)
	}
	a.get("/reservations/new?date="+day).want(t, http.StatusOK).has(t, sentence, `value="`+day+`"`)

	sent := a.channels.Sent()
	id := channel.NewID()
	p := decode[problem](t, a.postJSON(body(id, day, 2)).want(t, http.StatusForbidden, "Content-Type", "application/problem+json", "Cache-Control", "no-store"))
	if p.Detail != sentence {
		t.Errorf("got the problem %+v, want %q", p, sentence)
	}
	refused := a.postForm(form(id, day, "2")).want(t, http.StatusForbidden).has(t, sentence+" Your entries are still here.", id, `value="Ada Lovelace"`, `value="ada@example.org"`, `value="2"`, `value="`+day+`"`)
	if after, err := strconv.Atoi(refused.Header.Get("Retry-After")); err != nil || after < 47*60*60 || after > 48*60*60 {
		t.Errorf("Retry-After: got %q, want two days in seconds", refused.Header.Get("Retry-After"))
	}
	a.get("/reservations/"+id).want(t, http.StatusNotFound)
	a.postForm(form(id, day, "lots")).want(t, http.StatusUnprocessableEntity)
	if a.channels.Sent() != sent {
		t.Error("a command was sent")
	}

	if err := g.Open(t.Context(), gate.Note{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*stack{a, b} {
		eventually(t, "bookings are open", func() bool {
			return s.postJSON(body(channel.NewID(), day, 2)).StatusCode == http.StatusAccepted
		})
	}
	a.get("/?month="+day[:7]).want(t, http.StatusOK).has(t, `<a class="day" data-date="`+day+`"`)
	a.postForm(form(id, day, "2")).want(t, http.StatusSeeOther)
}
