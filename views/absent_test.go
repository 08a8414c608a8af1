package views_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// asIs serves a view as it is under one key.
func asIs[V any](w *world, cfg views.Config[V]) http.Handler {
	return views.New(w.Channels, "totals", cfg).Handler(func(*http.Request) string { return "a" }, func(_ string, v V) any { return v })
}

// A view without events is served as its initial view, with an ETag like any other, and never as null. An empty list or
// map is served as such. Where there is nothing to show, the answer is 404.
func TestHandlerBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		h    http.Handler
		want string // "" is 404
	}{
		"a number":           {asIs(w, views.Config[int]{}), `0`},
		"a struct":           {asIs(w, views.Config[Total]{}), `{"sum":0,"count":0}`},
		"a list":             {asIs(w, views.Config[[]string]{}), `[]`},
		"a map":              {asIs(w, views.Config[map[string]int]{}), `{}`},
		"a pointer":          {asIs(w, views.Config[*Total]{}), ``},
		"anything":           {asIs(w, views.Config[any]{}), ``},
		"an initial view":    {asIs(w, views.Config[*Total]{Initial: func(string) *Total { return &Total{Sum: 1} }}), `{"sum":1,"count":0}`},
		"render returns nil": {w.Totals.Handler(func(*http.Request) string { return "a" }, func(string, Total) any { return nil }), ``},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			for range 2 { // from the store, and from memory
				r := ask(test.h, method, "/")
				body, etag := text(t, r), r.Header.Get("ETag")
				if test.want == "" {
					wantProblem(t, name, r, body, method, http.StatusNotFound)
					continue
				}
				if r.StatusCode != 200 || method == "GET" && body != test.want+"\n" || etag == "" {
					t.Errorf("%s: %s: got %d %q, ETag %s; want 200 %s", name, method, r.StatusCode, body, etag, test.want)
				}
				if r := ask(test.h, method, "/", "If-None-Match", etag); r.StatusCode != 304 {
					t.Errorf("%s: %s: got %d for the same ETag, want 304", name, method, r.StatusCode)
				}
			}
		}
		if r := ask(test.h, "POST", "/"); r.StatusCode != 405 {
			t.Errorf("%s: POST: got %d, want 405", name, r.StatusCode)
		}
	}
}

// wantProblem checks an answer of RFC 9457, which no cache may keep.
func wantProblem(t *testing.T, name string, r *http.Response, body, method string, status int) {
	t.Helper()
	if r.StatusCode != status || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("ETag") != "" {
		t.Errorf("%s: %s: got %d, headers %v; want %d, as a problem", name, method, r.StatusCode, r.Header, status)
	}
	var problem struct {
		Title, Detail string
		Status        int
	}
	if method == "HEAD" {
		return // net/http leaves the body out
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != status || problem.Title != http.StatusText(status) || problem.Detail == "" {
		t.Errorf("%s: got %q, error %v; want a title, status %d and a detail", name, body, err, status)
	}
}

// A view that was not found is found once there is something to show.
func TestHandlerAfterTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, views.Config[Month]{}, views.Config[Total]{Fresh: -1})
	h := w.Totals.Handler(func(*http.Request) string { return "ada" }, func(_ string, s Total) any {
		if s.Count == 0 {
			return nil
		}
		return s
	})
	if r := ask(h, "GET", "/", "If-None-Match", "*"); r.StatusCode != 404 {
		t.Errorf("before the first event: got %d, want 404", r.StatusCode)
	}
	w.mustFold("totals", added("1", "ada", 5))
	r := ask(h, "GET", "/")
	if got := text(t, r); r.StatusCode != 200 || got != `{"sum":5,"count":1}`+"\n" {
		t.Errorf("after it: got %d %q", r.StatusCode, got)
	}
}

func TestHandlerProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := ask(w.Totals.Handler(func(*http.Request) string { return "" }, func(string, Total) any { return 1 }), "GET", "/")
	wantProblem(t, "no key", r, text(t, r), "GET", http.StatusNotFound)
	r = ask(w.Totals.Handler(func(*http.Request) string { return "b" }, func(string, Total) any { return make(chan int) }), "GET", "/")
	wantProblem(t, "not to be encoded", r, text(t, r), "GET", http.StatusInternalServerError)
	w.calls.failWith(storage.ErrUnavailable)
	r = ask(page(w.Totals), "GET", "/totals/bob")
	wantProblem(t, "no store", r, text(t, r), "GET", http.StatusServiceUnavailable)
}

// newerTotal is the view in a newer version of the program.
type newerTotal struct {
	Sum   int `json:"sum"`
	Count int `json:"count"`
	Most  int `json:"most"`
}

// In a rolling update, the older version's projections keep the members that the newer one has added.
func TestViewKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newer := views.New(w.Channels, "totals", views.Config[newerTotal]{})
	h := handlers.NewRegistry(w.Channels, handlers.Config{})
	views.Project(h, newer, Added.Subject, func(v newerTotal, e Added) newerTotal {
		return newerTotal{v.Sum + e.Amount, v.Count + 1, max(v.Most, e.Amount)}
	})
	w.mustFold("totals", added("1", "ada", 1))
	if err := errors.Join(fold(t, h, "totals", added("2", "ada", 5))...); err != nil {
		t.Fatal(err)
	}
	w.mustFold("totals", added("3", "ada", 2), added("4", "ada", 3))
	w.mustFold("totals", added("5", "ada", 4))
	w.wantTotal("ada", Total{Sum: 15, Count: 5})
	if got, _, err := newer.GetFresh(t.Context(), "ada"); err != nil || got != (newerTotal{15, 5, 5}) {
		t.Errorf("got %+v, error %v; want the most of 5 beside what the older version counted", got, err)
	}
}

// unseen is a view of which JSON keeps nothing.
type unseen struct{ n int }

// A view of which nothing would be kept is refused when it is registered, and by readers.
func TestViewOfWhichNothingIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := views.New(w.Channels, "totals", views.Config[unseen]{})
	h := handlers.NewRegistry(w.Channels, handlers.Config{})
	views.Project(h, v, Added.Subject, func(u unseen, e Added) unseen { u.n += e.Amount; return u })
	_, err := v.Get(t.Context(), "ada")
	for _, err := range []error{h.Err(), v.Check(), err} {
		if err == nil || !strings.Contains(err.Error(), "views_test.unseen.n") {
			t.Errorf("got error %v, want one with the field", err)
		}
	}
}
