package site_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/spool"
)

// spooled serves the site of a stack with a spool.
func spooled(t *testing.T, s *stack) *spool.Spool {
	t.Helper()
	kept, err := spool.Open(t.Context(), filepath.Join(t.TempDir(), "web.spool"), s.channels, spool.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := site.New(kept.Channels(), site.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	s.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- kept.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	return kept
}

// While the store is away the site takes reservations, says that they are kept, and they are decided afterwards.
func TestReservationsAreKeptWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	kept := spooled(t, s)
	s.work()
	before := channel.NewID()
	s.postJSON(body(before, in(3), 2)).want(t, http.StatusAccepted, "Location", "/reservations/"+before)
	s.becomes("/reservations/"+before, reservations.Accepted) // so the worker has begun

	s.down.Store(true)
	s.get("/reservations/new?date="+in(3)).want(t, http.StatusOK).has(t, "Book the table")
	s.get("/").want(t, http.StatusOK).has(t, "Choose a day", "can't see which days are sold out")
	byProgram := channel.NewID()
	receipt := "/reservations/" + byProgram + "?kept=1"
	s.postJSON(body(byProgram, in(3), 4)).want(t, http.StatusAccepted, "Location", receipt).has(t, `"status":"pending","kept":true`)
	s.do("GET", receipt, nil, "Accept", "application/json").want(t, http.StatusOK).has(t, `"kept":true`)
	byPerson := channel.NewID()
	form := "id=" + byPerson + "&date=" + in(3) + "&quantity=3&name=Zo%C3%AB&email=zoe%40example.org"
	page := "/reservations/" + byPerson + "?kept=1"
	s.do("POST", "/reservations", strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded").want(t, http.StatusSeeOther, "Location", page)
	s.get(page).want(t, http.StatusOK).has(t, "We have your request", "need not send it again", byPerson)
	s.get("/reservations/"+byPerson).want(t, http.StatusServiceUnavailable)
	s.get("/reservations/x%20?kept=1").want(t, http.StatusNotFound)
	if n := kept.Waiting(); n != 2 {
		t.Errorf("%d messages wait, want 2", n)
	}

	s.down.Store(false)
	for _, id := range []string{byProgram, byPerson} {
		eventually(t, "a decision", func() bool { return s.get("/reservations/"+id).StatusCode == http.StatusOK })
		s.becomes("/reservations/"+id, reservations.Accepted)
	}
	s.get(page).want(t, http.StatusOK).has(t, "Your table is booked", "Zoë")
}

// Without a spool a store that is away is a 503, also at an address that says kept.
func TestWithoutASpool(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	s.down.Store(true)
	s.postJSON(body(channel.NewID(), in(3), 4)).want(t, http.StatusServiceUnavailable)
	s.get("/reservations/new?date="+in(3)).want(t, http.StatusServiceUnavailable)
	s.get("/").want(t, http.StatusServiceUnavailable)
	s.get("/reservations/"+channel.NewID()+"?kept=1").want(t, http.StatusServiceUnavailable)
}
