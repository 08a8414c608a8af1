package site_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
)

// in returns the date so many days from now.
func in(days int) string { return time.Now().AddDate(0, 0, days).Format(time.DateOnly) }

func body(id, date string, quantity int) string {
	return fmt.Sprintf(`{"id":%q,"date":%q,"name":"Ada Lovelace","email":"ada@example.org","quantity":%d}`, id, date, quantity)
}

func form(id, date, quantity string) url.Values {
	return url.Values{"id": {id}, "date": {date}, "name": {"Ada Lovelace"}, "email": {"ada@example.org"}, "quantity": {quantity}}
}

func TestBookAsProgram(t *testing.T) { onEachStore(t, bookAsProgram) }

func bookAsProgram(t *testing.T, s *stack) {
	id := channel.NewID()
	path := "/reservations/" + id
	for range 2 { // the second one is a repeat, and harmless
		a := s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted, "Location", path, "Content-Type", "application/json", "Cache-Control", "no-store")
		if want := fmt.Sprintf(`{"id":%q,"status":"pending"}`+"\n", id); a.body != want {
			t.Errorf("body: got %s, want %s", a.body, want)
		}
	}

	want := reservations.Status{ID: id, Date: in(3), Name: "Ada Lovelace", Quantity: 4, Status: reservations.Pending}
	a := s.get(path, "Accept", "application/json").want(t, http.StatusOK, "Content-Type", "application/json", "Cache-Control", "no-store")
	if got := decode[reservations.Status](t, a); got != want {
		t.Errorf("before the decision: got %+v, want %+v", got, want)
	}
	if strings.Contains(a.body, "ada@example.org") {
		t.Errorf("the receipt tells the e-mail address: %s", a.body)
	}

	s.work()
	s.becomes(path, reservations.Accepted)
	want.Status, want.Number = reservations.Accepted, "1-3"
	if got := decode[reservations.Status](t, s.get(path, "Accept", "application/json")); got != want {
		t.Errorf("after the decision: got %+v, want %+v", got, want)
	}
	eventually(t, "one mail", func() bool { return slices.Equal(s.mails.subjects(), []string{"Your table is booked"}) })
}

func TestBookWithoutID(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	a := s.postJSON(fmt.Sprintf(`{"date":%q,"name":"Ada","email":"ada@example.org","quantity":1,"unknown":true}`, in(1))).want(t, http.StatusAccepted)
	id := decode[reservations.Status](t, a).ID
	if _, ok := channel.IDTime(id); !ok {
		t.Errorf("ID: got %q, want a UUIDv7", id)
	}
	s.get("/reservations/"+id, "Accept", "application/json").want(t, http.StatusOK)

	// A refused form comes back with an ID, so that sending it twice is harmless again.
	page := s.postForm(form("", in(1), "0")).want(t, http.StatusUnprocessableEntity)
	hidden := regexp.MustCompile(`name="id" value="([^"]*)"`).FindStringSubmatch(page.body)
	if hidden == nil {
		t.Fatalf("no ID in the form:\n%s", page.body)
	}
	if _, ok := channel.IDTime(hidden[1]); !ok {
		t.Errorf("ID of the form: got %q, want a UUIDv7", hidden[1])
	}
}

func TestBookAsPerson(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	page := s.get("/reservations/new?date="+in(3)).want(t, http.StatusOK, "Content-Type", "text/html; charset=utf-8", "Cache-Control", "no-store")
	hidden := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(page.body)
	if hidden == nil {
		t.Fatalf("no hidden ID:\n%s", page.body)
	}
	path := "/reservations/" + hidden[1]
	for range 2 { // a double click
		s.postForm(form(hidden[1], in(3), "4")).want(t, http.StatusSeeOther, "Location", path)
	}
	s.get(path).want(t, http.StatusOK).has(t, "One moment", "also comes by e-mail", "Ada Lovelace", "4 people",
		`data-events="`+path+`/events"`, `http-equiv="refresh"`)
	s.work()
	s.becomes(path, reservations.Accepted)
	a := s.get(path).want(t, http.StatusOK).has(t, "Your table is booked", "Cancel this reservation")
	if strings.Contains(a.body, "data-events") || strings.Contains(a.body, "http-equiv") {
		t.Errorf("a decided reservation is still watched:\n%s", a.body)
	}
}

func TestSameIDForSomethingElse(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	id := channel.NewID()
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	s.postJSON(body(id, in(3), 5)).want(t, http.StatusConflict, "Content-Type", "application/problem+json")
	a := s.postForm(form(id, in(3), "5")).want(t, http.StatusConflict).has(t, "/reservations/"+id, `value="Ada Lovelace"`)
	if strings.Contains(a.body, `name="id" value="`+id) {
		t.Error("the form still has the ID that is taken")
	}
	if got := decode[reservations.Status](t, s.get("/reservations/"+id, "Accept", "application/json")).Quantity; got != 4 {
		t.Errorf("quantity: got %d, want that of the first", got)
	}
}

// An empty ID is a fault. Without any ID, a repeated request books again.
func TestEmptyID(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	for _, id := range []string{`""`, `" "`, "null"} {
		a := s.postJSON(strings.Replace(body("x", in(1), 2), `"x"`, id, 1)).want(t, http.StatusUnprocessableEntity)
		if p := decode[problem](t, a); len(p.Errors) != 1 || p.Errors[0].Pointer != "#/id" {
			t.Errorf("%s: got %+v, want a fault of the ID alone", id, p)
		}
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	a := s.postJSON(`{"id":"a","date":"24.12.","name":7,"email":"ada","quantity":"four"}`).
		want(t, http.StatusUnprocessableEntity, "Content-Type", "application/problem+json")
	p := decode[problem](t, a)
	if p.Status != http.StatusUnprocessableEntity || p.Title == "" || p.Detail == "" {
		t.Errorf("problem: got %+v", p)
	}
	var pointers []string
	for _, e := range p.Errors {
		pointers = append(pointers, e.Pointer)
		if e.Detail == "" {
			t.Errorf("%s: no detail", e.Pointer)
		}
	}
	if want := []string{"#/id", "#/date", "#/quantity", "#/name", "#/email"}; !slices.Equal(pointers, want) {
		t.Errorf("pointers: got %v, want %v", pointers, want)
	}
	for name, text := range map[string]string{
		"yesterday": body(channel.NewID(), in(-1), 1), "in two years": body(channel.NewID(), in(730), 1), "a crowd": body(channel.NewID(), in(1), 21),
		"an ID of last year": body("019a0000-0000-7abc-8abc-0123456789ab", in(1), 1),
	} {
		if got := s.postJSON(text).StatusCode; got != http.StatusUnprocessableEntity {
			t.Errorf("%s: got %d, want 422", name, got)
		}
	}

	f := form(channel.NewID(), in(3), "lots")
	f.Set("email", `"><script>alert(1)</script>`)
	page := s.postForm(f).want(t, http.StatusUnprocessableEntity, "Content-Type", "text/html; charset=utf-8").has(t,
		`id="quantity-fault"`, `id="email-fault"`, `value="lots"`, `value="Ada Lovelace"`, f.Get("id"), `aria-invalid="true"`)
	if strings.Contains(page.body, "<script>alert") || strings.Contains(page.body, `id="name-fault"`) {
		t.Errorf("the form has what it shouldn't:\n%s", page.body)
	}
	f = form("019a0000-0000-7abc-8abc-0123456789ab", in(3), "2")
	page = s.postForm(f).want(t, http.StatusUnprocessableEntity).has(t, "open for a long time", `value="Ada Lovelace"`)
	if strings.Contains(page.body, f.Get("id")) {
		t.Error("the form still has the ID that is too old")
	}
}

// The site offers no more seats than there are, and accepts no more.
func TestSeats(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{Seats: 4})
	s.get("/reservations/new").want(t, http.StatusOK).has(t, `id="quantity-hint">1 to 4<`, `value="2"`)
	for _, quantity := range []int{0, 5, 21} {
		a := s.postJSON(body(channel.NewID(), in(1), quantity)).want(t, http.StatusUnprocessableEntity)
		if p := decode[problem](t, a); len(p.Errors) != 1 || p.Errors[0].Detail != "Choose 1 to 4 seats." {
			t.Errorf("%d seats: got %+v, want the offer", quantity, p.Errors)
		}
	}
	s.postForm(form(channel.NewID(), in(1), "5")).want(t, http.StatusUnprocessableEntity).has(t, "Choose 1 to 4 seats.", `id="quantity-hint">1 to 4<`)
	s.postJSON(body(channel.NewID(), in(1), 4)).want(t, http.StatusAccepted)

	s = newStack(t, site.Config{Seats: 1})
	s.get("/reservations/new").has(t, `id="quantity" name="quantity" class="short" inputmode="numeric" autocomplete="off" required value="1"`)
	s = newStack(t, site.Config{Seats: 300})
	s.get("/reservations/new").has(t, `id="quantity-hint">1 to 20<`)
}

// Commands are counted when they are sent; a refused request is none.
func TestSentCommands(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	id := channel.NewID()
	for i, step := range []struct {
		do   func() answer
		want int64
	}{
		{func() answer { return s.postJSON(body(id, in(1), 2)) }, 1},
		{func() answer { return s.postJSON(body(id, in(1), 2)) }, 2}, // a repeat
		{func() answer { return s.postJSON(body(id, in(1), 3)) }, 2}, // a conflict
		{func() answer { return s.postJSON(body(id, in(1), 0)) }, 2},
		{func() answer { return s.postForm(form(channel.NewID(), in(1), "2")) }, 3},
		{func() answer { return s.get("/reservations/" + id) }, 3},
		{func() answer { return s.do("POST", "/reservations/"+id+"/cancel", nil) }, 4},
	} {
		if a := step.do(); s.channels.Sent() != step.want {
			t.Errorf("step %d: got %d sent after a %d, want %d", i, s.channels.Sent(), a.StatusCode, step.want)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	large := strings.Repeat(" ", 64<<10)
	const asJSON, asForm = "application/json", "application/x-www-form-urlencoded"
	for _, test := range []struct {
		name, contentType, body string
		status                  int
		answer                  string
	}{
		{"JSON over the limit", asJSON, large + "{}", 413, "application/problem+json"},
		{"JSON at the limit", asJSON, large[2:] + "{}", 422, "application/problem+json"},
		{"a form over the limit", asForm, "name=" + large, 413, "text/html; charset=utf-8"},
		{"no type", "", "{}", 415, "text/html; charset=utf-8"},
		{"a malformed type", "application/", "{}", 415, "text/html; charset=utf-8"},
		{"text", "text/plain", "{}", 415, "text/html; charset=utf-8"},
		{"an upload", "multipart/form-data; boundary=x", "--x--", 415, "text/html; charset=utf-8"},
		{"half a JSON", asJSON, `{"date":`, 400, "application/problem+json"},
		{"two JSONs", asJSON, `{}{}`, 400, "application/problem+json"},
		{"another JSON", asJSON, `[]`, 400, "application/problem+json"},
		{"no JSON", asJSON, "", 400, "application/problem+json"},
		{"JSON that is not UTF-8", asJSON, "{\"name\":\"\xff\"}", 400, "application/problem+json"},
		{"a broken form", asForm, "name=%zz", 400, "text/html; charset=utf-8"},
		{"JSON null", asJSON, `null`, 422, "application/problem+json"},
		{"some other JSON type", "application/vnd.example+json; charset=utf-8", `{}`, 422, "application/problem+json"},
	} {
		a := s.do("POST", "/reservations", strings.NewReader(test.body), "Content-Type", test.contentType)
		if got := a.Header.Get("Content-Type"); a.StatusCode != test.status || got != test.answer {
			t.Errorf("%s: got %d, %s; want %d, %s\n%s", test.name, a.StatusCode, got, test.status, test.answer, a.body)
		}
	}
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	id := channel.NewID()
	s.down.Store(true)
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusServiceUnavailable, "Retry-After", "5", "Content-Type", "application/problem+json")
	s.postForm(form(id, in(3), "4")).want(t, http.StatusServiceUnavailable, "Retry-After", "5", "Content-Type", "text/html; charset=utf-8").
		has(t, "still here", `value="Ada Lovelace"`, `value="ada@example.org"`, `value="4"`, `value="`+id+`"`, `value="`+in(3)+`"`)
	for _, path := range []string{"/", "/reservations/new?date=" + in(3), "/reservations/" + id, "/reservations/" + id + "/events"} {
		s.get(path).want(t, http.StatusServiceUnavailable, "Retry-After", "5")
	}
	s.do("POST", "/reservations/"+id+"/cancel", nil).want(t, http.StatusServiceUnavailable, "Retry-After", "5")
	s.get("/views/months/"+in(3)[:7]).want(t, http.StatusServiceUnavailable)
	s.get("/reservations/new").want(t, http.StatusOK) // needs nothing from the store

	log := s.log.String()
	if !strings.Contains(log, "request failed") || !strings.Contains(log, "POST /reservations") {
		t.Errorf("log doesn't tell what failed:\n%s", log)
	}
	for _, personal := range []string{"Ada", "ada@", id} {
		if strings.Contains(log, personal) {
			t.Errorf("log tells %q:\n%s", personal, log)
		}
	}

	s.down.Store(false)
	s.postForm(form(id, in(3), "4")).want(t, http.StatusSeeOther, "Location", "/reservations/"+id)
}

func TestStoreHangs(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{Timeout: 50 * time.Millisecond})
	id := channel.NewID()
	s.hangs.Store(true)
	routes := []string{"POST /reservations"}
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusServiceUnavailable, "Retry-After", "5", "Content-Type", "application/problem+json")
	s.postForm(form(id, in(3), "4")).want(t, http.StatusServiceUnavailable, "Retry-After", "5", "Content-Type", "text/html; charset=utf-8").
		has(t, "still here", `value="Ada Lovelace"`, `value="ada@example.org"`, `value="4"`, `value="`+id+`"`, `value="`+in(3)+`"`)
	for path, route := range map[string]string{
		"/": "/{$}", "/reservations/new?date=" + in(3): "/reservations/new",
		"/reservations/" + id: "/reservations/{id}", "/reservations/" + id + "/events": "/reservations/{id}/events",
	} {
		s.get(path).want(t, http.StatusServiceUnavailable, "Retry-After", "5")
		routes = append(routes, "GET "+route)
	}
	s.do("POST", "/reservations/"+id+"/cancel", nil).want(t, http.StatusServiceUnavailable, "Retry-After", "5")
	s.get("/views/months/"+in(3)[:7]).want(t, http.StatusServiceUnavailable)
	s.get("/reservations/new").want(t, http.StatusOK) // needs nothing from the store

	log := s.log.String()
	for _, route := range append(routes, "POST /reservations/{id}/cancel", "GET /views/months/{month}") {
		if !strings.Contains(log, fmt.Sprintf("route=%q", route)) {
			t.Errorf("log doesn't tell that %s failed:\n%s", route, log)
		}
	}
	if !strings.Contains(log, "longer than 50ms") || strings.Contains(log, id) {
		t.Errorf("log doesn't tell why, or tells the ID:\n%s", log)
	}
}

// TestClientHasGone checks that a client that leaves early doesn't count as a failure of the site.
func TestClientHasGone(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	s.hangs.Store(true)
	var log logBuffer
	h, err := site.New(s.channels, site.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range []*http.Request{
		httptest.NewRequestWithContext(gone, "GET", "/", nil),
		httptest.NewRequestWithContext(gone, "GET", "/views/months/"+in(3)[:7], nil),
		httptest.NewRequestWithContext(gone, "POST", "/reservations", strings.NewReader(form(channel.NewID(), in(3), "4").Encode())),
	} {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s: got %d, want 503", r.Method, r.URL, w.Code)
		}
	}
	if got := log.String(); got != "" {
		t.Errorf("log: got %s, want nothing", got)
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	s := newStack(t, site.Config{})
	// sent returns the trace of the one message that was sent since the last call.
	sent := func() string {
		t.Helper()
		q := s.store.Queue("reservations")
		got, err := q.Receive(t.Context(), 10, time.Minute)
		if err != nil || len(got) != 1 {
			t.Fatalf("got %d messages, error %v; want 1", len(got), err)
		}
		if err := q.Delete(t.Context(), []storage.Receipt{got[0].Receipt}); err != nil {
			t.Fatal(err)
		}
		var event struct {
			TraceParent string `json:"traceparent"`
		}
		if err := json.Unmarshal(got[0].Body, &event); err != nil {
			t.Fatal(err)
		}
		return event.TraceParent
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	id := channel.NewID()
	for range 2 { // the second one is a repeat, which takes another path
		s.postJSON(body(id, in(3), 4), "traceparent", parent).want(t, http.StatusAccepted)
		if got := sent(); got != parent {
			t.Errorf("booking: got %q, want %q", got, parent)
		}
	}
	s.do("POST", "/reservations/"+id+"/cancel", nil, "traceparent", parent).want(t, http.StatusAccepted)
	if got := sent(); got != parent {
		t.Errorf("cancelling: got %q, want %q", got, parent)
	}
	for _, wrong := range []string{"", "x", strings.ToUpper(parent), "01" + parent[2:], parent[:54], parent + "0", parent + "-x", strings.Replace(parent, "4b", "4g", 1)} {
		s.postJSON(body(channel.NewID(), in(3), 4), "traceparent", wrong).want(t, http.StatusAccepted)
		if got := sent(); got != "" {
			t.Errorf("%q: got %q, want nothing", wrong, got)
		}
	}
}

func TestSoldOutDay(t *testing.T) { onEachStore(t, soldOutDay) }

func soldOutDay(t *testing.T, s *stack) {
	s.work()
	day := in(5)
	view := "/views/months/" + day[:7]
	before := s.get(view).want(t, http.StatusOK, "Content-Type", "application/json")
	if want := fmt.Sprintf(`{"month":%q,"disabledDays":[]}`+"\n", day[:7]); before.body != want {
		t.Errorf("view: got %s, want %s", before.body, want)
	}
	etag := before.Header.Get("ETag")
	if a := s.get(view, "If-None-Match", etag).want(t, http.StatusNotModified, "ETag", etag); etag == "" || a.body != "" {
		t.Errorf("not modified: got ETag %q, body %q", etag, a.body)
	}

	var paths []string
	for range 3 {
		id := channel.NewID()
		paths = append(paths, "/reservations/"+id)
		s.postJSON(body(id, day, 20)).want(t, http.StatusAccepted)
		s.states(paths[len(paths)-1], func(now reservations.Status) bool { return now.Status == reservations.Pending })
	}
	rejected := s.becomes(paths[2], reservations.Rejected)
	if want := "We are fully booked that day."; rejected.Reason != want {
		t.Errorf("reason: got %q, want %q", rejected.Reason, want)
	}
	s.get(paths[2]).want(t, http.StatusOK).has(t, "We have no table for you", rejected.Reason)

	full := fmt.Sprintf(`{"month":%q,"disabledDays":[%q]}`+"\n", day[:7], day)
	eventually(t, "the day is disabled", func() bool {
		a := s.get(view, "If-None-Match", etag)
		return a.StatusCode == http.StatusOK && a.body == full
	})
	eventually(t, "the calendar shows it", func() bool {
		return strings.Contains(s.get("/?month="+day[:7]).body, `class="day soldout" data-date="`+day)
	})
	s.get("/reservations/new?date="+day).want(t, http.StatusOK).has(t, "fully booked at the moment")

	s.do("POST", paths[0]+"/cancel", nil).want(t, http.StatusAccepted)
	eventually(t, "the day is open again", func() bool { return s.get(view).body == before.body })
}

func TestRebuildMonths(t *testing.T) { onEachStore(t, rebuildMonths) }

func rebuildMonths(t *testing.T, s *stack) {
	s.work()
	for _, day := range []string{in(5), in(6)} {
		for range 2 {
			s.postJSON(body(channel.NewID(), day, 20)).want(t, http.StatusAccepted)
		}
	}
	read := func() (days []string) {
		months := reservations.Months(s.channels)
		for _, month := range slices.Compact([]string{in(5)[:7], in(6)[:7]}) {
			m, _, err := months.GetFresh(t.Context(), month)
			if err != nil {
				t.Fatal(err)
			}
			days = append(days, m.DisabledDays...)
		}
		return days
	}
	want := []string{in(5), in(6)}
	eventually(t, "both days are sold out", func() bool { return slices.Equal(read(), want) })

	if err := reservations.Months(s.channels).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(); len(got) != 0 {
		t.Fatalf("cleared: got %v", got)
	}
	n, err := reservations.RebuildMonths(t.Context(), s.channels, 40)
	if err != nil || n != 2 {
		t.Fatalf("rebuild: got %d, %v", n, err)
	}
	if got := read(); !slices.Equal(got, want) {
		t.Errorf("rebuilt: got %v, want %v", got, want)
	}
}

func TestEventStreams(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	s := newStack(t, site.Config{Stopping: stopping, MaxStreams: 1}, func(server *httptest.Server) {
		server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	})
	id := channel.NewID()
	path := "/reservations/" + id
	s.postJSON(body(id, in(3), 4)).want(t, http.StatusAccepted)
	longer := time.After(500 * time.Millisecond) // longer than the server's timeouts
	var seen []reservations.State
	s.states(path, func(now reservations.Status) bool {
		seen = append(seen, now.Status)
		switch now.Status {
		case reservations.Pending:
			s.get(path+"/events").want(t, http.StatusServiceUnavailable, "Retry-After", "5")
			<-longer
			s.work()
		case reservations.Accepted:
			close(stopping) // ends the stream
		}
		return true
	})
	if want := []reservations.State{reservations.Pending, reservations.Accepted}; !slices.Equal(seen, want) {
		t.Errorf("states: got %v, want %v", seen, want)
	}
}
