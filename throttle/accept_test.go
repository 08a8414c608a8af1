package throttle_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/throttle"
)

type order struct {
	ID string `json:"id"`
}

func (order) Kind() channel.Kind  { return "test.order.v1" }
func (o order) MessageID() string { return o.ID }

// A door before host.Accept reads the command's ID from the body, which the handler still gets whole. A repeat is
// accepted again though nothing is left, and is one more message with the same ID.
func TestBeforeAccept(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	routes, err := channel.NewRoutes(channel.Command[order]("orders"))
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, throttle.Config{ID: throttle.JSONMember("id"), Quotas: []throttle.Quota{{Name: "a", Amount: 1, Per: time.Hour}}})
	h := d.Serve(host.Accept[order](&host.App{Channels: channels, Log: slog.New(slog.DiscardHandler)}, nil))
	for _, c := range []struct {
		body string
		want int
	}{{`{"id":"1"}`, 202}, {`{"id":"2"}`, 429}, {`{"id":"1"}`, 202}, {`{"id":"3"`, 429}, {`{"id":"1"}`, 202}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body)))
		want(t, c.body, w.Code, c.want)
	}
	st, err := store.Queue("orders").Stats(t.Context())
	if err != nil || st.Ready != 3 {
		t.Errorf("%d messages, %v; want 3", st.Ready, err)
	}
}
