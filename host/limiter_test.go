package host_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/throttle"
)

type ticket struct {
	ID string `json:"id"`
}

func (ticket) Kind() channel.Kind  { return "test.ticket.v1" }
func (o ticket) MessageID() string { return o.ID }

// behindLimiter returns host.Accept behind a rate limiter, and the queue of its commands.
func behindLimiter(t *testing.T, cfg throttle.Config) (http.Handler, *storage.Queue) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	routes, err := channel.NewRoutes(channel.Command[ticket]("orders"))
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	d, err := throttle.NewRateLimiter("orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d.Serve(host.Accept[ticket](&host.App{Channels: channels, Log: slog.New(slog.DiscardHandler)}, nil)), store.Queue("orders")
}

// A rate limiter before host.Accept reads the command's ID from the body, which the handler still gets whole. A repeat
// is accepted again though nothing is left, and is one more message with the same ID.
func TestADoorBeforeAccept(t *testing.T) {
	t.Parallel()
	h, queue := behindLimiter(t, throttle.Config{ID: throttle.JSONMember("id"), Quotas: []throttle.Quota{{Name: "a", Amount: 1, Per: time.Hour}}})
	for _, c := range []struct {
		body string
		want int
	}{{`{"id":"1"}`, 202}, {`{"id":"2"}`, 429}, {`{"id":"1"}`, 202}, {`{"id":"3"`, 429}, {`{"id":"1"}`, 202}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, asked(t.Context(), http.MethodPost, "/", c.body))
		if w.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.body, w.Code, c.want)
		}
	}
	st, err := queue.Stats(t.Context())
	if err != nil || st.Ready != 3 {
		t.Errorf("%d messages, %v; want 3", st.Ready, err)
	}
}

// A command over a quota with Defer is accepted, and is due when the quota lets it. The answer tells the time.
func TestADoorDefersACommand(t *testing.T) {
	t.Parallel()
	h, queue := behindLimiter(t, throttle.Config{Quotas: []throttle.Quota{{Name: "a", Amount: 1, Per: time.Hour, Defer: 90 * time.Minute}}})
	began := time.Now()
	for n, want := range []int{202, 202, 429} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
		if w.Code != want {
			t.Errorf("request %d: got %d, want %d", n, w.Code, want)
		}
		var body struct {
			Due time.Time `json:"due"`
		}
		if n == 1 && (json.Unmarshal(w.Body.Bytes(), &body) != nil || body.Due.Before(began.Add(59*time.Minute)) || body.Due.After(time.Now().Add(61*time.Minute))) {
			t.Errorf("the answer to a command that is due in an hour: %s", w.Body)
		}
		if n == 0 && w.Body.Len() > 0 {
			t.Errorf("the answer to a command that is due now: %s", w.Body)
		}
	}
	st, err := queue.Stats(t.Context())
	if err != nil || st.Ready != 1 || st.Delayed != 1 {
		t.Errorf("got %+v, %v; want a message now and a later one", st, err)
	}
}
