package processes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// nasty would be a script if a page didn't escape it.
const nasty = `<script>alert("1")</script>`

// nastyName is a name of a step that would be one.
const nastyName = `<script>alert("1")`

// trip is the state of the plan that the pages show. Its secret is on no page.
type trip struct {
	ID     string   `json:"id"`
	Secret string   `json:"secret"`
	Days   []string `json:"days"`
}

func plan(p *process.Plan[trip]) {
	p.Tags(func(s trip) map[string]string { return map[string]string{"tag": nasty} })
	process.Do(p, "book", func(ctx context.Context, s trip) (string, error) {
		if err := worldtest.Pause(ctx, 10*time.Second); err != nil {
			return "", err
		}
		if process.Attempt(ctx) == 1 {
			return "", handlers.Retry(10*time.Second, errors.New(nasty))
		}
		return s.Secret, nil
	}, nil).Undo(func(context.Context, trip, string) error { return nil })
	process.Split(p, nastyName, func(s trip) []string { return s.Days }, func(day string) trip { return trip{ID: day} }, func(p *process.Plan[trip]) {
		process.Then(p, "walk", func(s trip) trip {
			if s.ID == "stuck" {
				panic(nasty)
			}
			return s
		})
	}, nil)
	process.Sleep(p, "rest", 40*time.Second)
}

// A site is the pages of a plan, with a worker.
type site struct {
	*testing.T
	pages http.Handler
	store *storage.Store
	trips *process.Instances[trip]
}

func onSite(t *testing.T, test func(s *site)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, process.Route("trip"))
		if err := process.Register(w.Registry, "trip", process.Version(1, plan)); err != nil {
			t.Fatal(err)
		}
		pages, err := processes.Pages(w.Store, processes.Plans(w.Channels.Routes()), "trips", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		stop := w.Start(worker.Config{})
		test(&site{t, pages, w.Store, process.Open[trip](w.Channels, "trip")})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// get gets a page and checks what all have.
func (s *site) get(status int, path string) string {
	s.Helper()
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, httptest.NewRequestWithContext(s.Context(), http.MethodGet, path, nil))
	body := w.Body.String()
	if w.Code != status {
		s.Fatalf("GET %s: got status %d, want %d\n%s", path, w.Code, status, body)
	}
	h := w.Header()
	if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self';") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") == "" {
		s.Errorf("GET %s: got headers %v", path, h)
	}
	if strings.Contains(body, "<script") || strings.Contains(body, "style=") || strings.Contains(body, "s3cret") {
		s.Errorf("GET %s: got a script, a style or the secret in\n%s", path, body)
	}
	return body
}

func (s *site) pass(d time.Duration) {
	s.Helper()
	if err := worldtest.Pause(s.Context(), d); err != nil {
		s.Fatal(err)
	}
}

func (s *site) has(what, page string, parts ...string) {
	s.Helper()
	page = strings.Join(strings.Fields(page), " ")
	for _, part := range parts {
		if !strings.Contains(page, part) {
			s.Errorf("%s: got\n%s\nwant %q", what, page, part)
		}
	}
}

// An instance is shown as a tree with a timeline, and nothing of it is taken for a part of the page.
func TestShow(t *testing.T) {
	onSite(t, func(s *site) {
		if err := s.trips.Start(s.Context(), "t1", trip{ID: "t1", Secret: "s3cret", Days: []string{"a", "stuck"}}); err != nil {
			t.Fatal(err)
		}
		s.pass(40 * time.Second)
		page := s.get(200, "/processes/trip/t1")
		s.has("the page", page, `<title>t1 · trip</title>`, `<span class="status on">inprocess</span>`, "<p class=\"about\">Version 1</p>", "40s ago.",
			`<p>Stuck, until somebody acts:</p> <div class="stuck"><p><strong>walk</strong> <span class="id">02.00001/01</span>: panic: &lt;script&gt;`,
			`<code>trips processes retry t1 02.00001/01 --plan trip</code>`, `<code>trips processes skip t1 02.00001/01 --plan trip</code>`, `<code>trips processes cancel t1 --plan trip</code>`,
			`<th scope="row" class="step d0"><span class="title"><span class="name">book</span> <span class="id">01</span></span><span class="remark">after 1 failed attempt: retry after 10s: &lt;script&gt;`,
			`class="step d2"><span class="title"><span class="name">walk</span> <span class="id">02.00001/01</span>`, "Critical path: ", "Tags: tag=&lt;script&gt;")
		bars := regexp.MustCompile(`<rect class="(\w+)" x="([\d.]+)%" width="([\d.]+)%"`).FindAllStringSubmatch(page, -1)
		var first []string
		for _, b := range bars[:min(len(bars), 3)] {
			first = append(first, strings.Join(b[1:], " "))
		}
		if want := []string{"works 0.00 25.00", "waits 25.00 25.00", "works 50.00 25.00"}; !slices.Equal(rounded(first), want) {
			t.Errorf("bars: got %q, want %q", first, want)
		}
		if n := strings.Count(page, "<circle"); n != 1 {
			t.Errorf("failed attempts: got %d, want 1", n)
		}
		if n := strings.Count(page, "<svg"); n != 6 || n != strings.Count(page, `<th scope="row"`) {
			t.Errorf("got %d timelines, want 6, as many as steps", n)
		}
		s.has("a part", s.get(200, "/processes/trip/t1%2F02.00001"), `It is a part of <a href="/processes/trip/t1">`, `<span class="id">01</span>`)
		s.has("a part", s.get(200, "/processes/trip/t1/02.00001"), `It is a part of`)

		if err := s.trips.Cancel(s.Context(), "t1", "ada", nasty); err != nil {
			t.Fatal(err)
		}
		s.pass(time.Minute)
		s.has("cancelled", s.get(200, "/processes/trip/t1"), `<span class="status back">canceled</span>`, "undo of book", `<rect class="undoes"`, "ada: cancel, because: &lt;script&gt;")
	})
}

// rounded takes the hundredths off, for a fold takes some time.
func rounded(bars []string) []string {
	for i, b := range bars {
		var is string
		var x, width float64
		if _, err := fmt.Sscan(b, &is, &x, &width); err == nil {
			bars[i] = fmt.Sprintf("%s %.2f %.2f", is, float64(int(x+.5)), float64(int(width+.5)))
		}
	}
	return bars
}

// The list has what the form asks for, and no more than a page takes.
func TestList(t *testing.T) {
	onSite(t, func(s *site) {
		s.has("nothing", s.get(200, "/processes"), "No instances.")
		for id, days := range map[string][]string{"a 1": nil, "a%2F?b": nil, "<script>": {"stuck"}, "b1": nil} {
			if err := s.trips.Start(s.Context(), id, trip{ID: id, Days: days}); err != nil {
				t.Fatal(err)
			}
		}
		s.pass(50 * time.Second)
		if err := s.trips.Cancel(s.Context(), "b1", "ada", ""); err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Second)
		ids := func(path string) string {
			t.Helper()
			var all []string
			for _, m := range regexp.MustCompile(`<td class="id"><a href="/processes/trip/([^"]*)">`).FindAllStringSubmatch(s.get(200, path), -1) {
				id, err := url.PathUnescape(m[1])
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, id)
				s.get(200, "/processes/trip/"+m[1])
			}
			return strings.Join(all, ", ")
		}
		for path, want := range map[string]string{
			"/processes": "<script>, a 1, a%2F?b", "/processes?status=canceled": "b1", "/processes?status=completed": "", "/processes?status=inprocess&id=a+": "a 1",
			"/processes?plan=nope&status=%3Cscript%3E": "<script>, a 1, a%2F?b", "/processes?plan=trip&id=%3Cs": "<script>", "/processes?status=stuck": "<script>",
		} {
			if got := ids(path); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		s.has("an unknown status", s.get(200, "/processes?status=nix"), `<p class="note">There is no status &#34;nix&#34;: these are the open ones. Choose one of open, inprocess,`)
		s.has("an unknown plan", s.get(200, "/processes?plan=nix"), "There is no plan &#34;nix&#34;: these are of all plans.")
		s.has("the labels", s.get(200, "/processes"), `data-label="Stuck at">02.00000/01 walk <span class="error">panic: &lt;script&gt;`, `data-label="Waits for">rest</td>`)
		if page := s.get(200, "/processes"); strings.Contains(page, "There is no") {
			t.Errorf("the list of what is open: got a note in %s", page)
		}
		s.has("the form", s.get(200, "/processes?status=stuck&id=%22%3E%3Cscript%3E"), `<option selected>stuck</option>`, `value="&#34;&gt;&lt;script&gt;"`)
		rows := s.store.Table("trip-index")
		for i := range 201 {
			if _, err := rows.Put(s.Context(), "open", fmt.Sprintf("x%03d", i), fmt.Appendf(nil, `{"id":"x%03d/02","status":"stuck","step":"02/01","error":%q,"created":"2026-01-02T03:04:05Z"}`, i, nasty), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		page := s.get(200, "/processes?status=stuck")
		s.has("many", page, "There are more than these 200.", `<td class="id"><a href="/processes/trip/x000">x000/02</a></td>`, `02/01 <span class="error">&lt;script&gt;`)
		if n := strings.Count(page, `<td class="id">`); n != 200 {
			t.Errorf("got %d rows, want 200", n)
		}
	})
}

// A page tells an instance that isn't there from one that can't be read.
func TestAnswers(t *testing.T) {
	onSite(t, func(s *site) {
		s.has("no instance", s.get(404, "/processes/trip/nope"), "There is no such instance.")
		s.has("no ID", s.get(404, "/processes/trip/a%01"), "No instance can have this ID.")
		s.get(302, "/processes/nope/t1")
		s.get(302, "/processes/trip/")
		s.get(301, "/processes/")
		if _, err := s.store.Blobs("trip").Put(s.Context(), "x", []byte(`{"value":{"balance":7}}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		s.has("somebody else's", s.get(404, "/processes/trip/x"), "is not an instance of the plan")
		if css := s.get(200, "/processes/style.css"); !strings.Contains(css, "prefers-color-scheme: dark") {
			t.Errorf("the style sheet: got %q", css)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			w := httptest.NewRecorder()
			s.pages.ServeHTTP(w, httptest.NewRequestWithContext(s.Context(), method, "/processes", nil))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: got status %d, want %d", method, w.Code, http.StatusMethodNotAllowed)
			}
		}
		link := storagetest.NewLink(s.store)
		var log bytes.Buffer
		pages, err := processes.Pages(link.Store, []string{"trip"}, "trips", slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		link.Cut()
		s.pages = pages
		for _, path := range []string{"/processes", "/processes/trip/t1"} {
			s.has("without the store", s.get(503, path), "The store can&#39;t be read; the log says why.")
		}
		if n := strings.Count(log.String(), "processes can't be shown"); n != 2 {
			t.Errorf("got %d lines in the log, want 2: %s", n, log.String())
		}
	})
}

// An instance of very many steps is shown in part, and the page says so.
func TestManySteps(t *testing.T) {
	onSite(t, func(s *site) {
		var events []string
		for i := range 1200 {
			events = append(events, fmt.Sprintf(`{"id":"%02d","name":"step","status":"completed","created":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:04:05Z"}`, i+1))
		}
		body := `{"value":{"plan":"trip","version":1,"status":"inprocess","created":"2026-01-02T03:04:05Z","events":[` + strings.Join(events, ",") + `]}}`
		if _, err := s.store.Blobs("trip").Put(s.Context(), "many", []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		page := s.get(200, "/processes/trip/many")
		s.has("many", page, "steps (200): a page shows at most 1000")
		if n := strings.Count(page, `<th scope="row"`); n != 1000 {
			t.Errorf("got %d steps, want 1000", n)
		}
	})
}
