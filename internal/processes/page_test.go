package processes_test

import (
	"context"
	"errors"
	"fmt"
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
		stop := w.Start(worker.Config{})
		test(&site{t, w.Store, process.Open[trip](w.Channels, "trip")})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// get makes the page of an instance, and checks what all have.
func (s *site) get(id string) string {
	s.Helper()
	l, err := process.Look(s.store, "trip", "/millrace")
	if err != nil {
		s.Fatal(err)
	}
	stream, err := l.Stream(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	head, steps, err := processes.HTML(stream, time.Now(), "trips", processes.Ways{Whole: func(id string) string { return "?whole=" + id }})
	if err != nil {
		s.Fatal(err)
	}
	body := string(head + steps)
	if strings.Contains(body, "<script") || strings.Contains(body, "style=") || strings.Contains(body, "s3cret") {
		s.Errorf("%s: got a script, a style or the secret in\n%s", id, body)
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
		page := s.get("t1")
		s.has("the page", page, `<span class="status on">inprocess</span>`, "<p class=\"about\">Version 1 · Started ", "40s ago.",
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
		s.has("a part", s.get("t1/02.00001"), `It is a part of <a href="?whole=t1">`, `<span class="id">01</span>`)

		if err := s.trips.Cancel(s.Context(), "t1", "ada", nasty); err != nil {
			t.Fatal(err)
		}
		s.pass(time.Minute)
		s.has("cancelled", s.get("t1"), `<span class="status back">canceled</span>`, "undo of book", `<rect class="undoes"`, "ada: cancel, because: &lt;script&gt;")
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
		page := s.get("many")
		s.has("many", page, "steps (200): a page shows at most 1000")
		if n := strings.Count(page, `<th scope="row"`); n != 1000 {
			t.Errorf("got %d steps, want 1000", n)
		}
	})
}
