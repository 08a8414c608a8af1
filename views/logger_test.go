package views_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/views"
)

// A view without a logger of its own, and so a registry, logs where its channels do: that is the program's log.
func TestAViewLogsWhereItsChannelsDo(t *testing.T) {
	t.Parallel()
	var program, own bytes.Buffer
	w := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{})
	channels := w.Channels.LogTo(slog.New(slog.NewTextHandler(&program, nil)))
	for _, tt := range []struct {
		name string
		cfg  views.Config[Total]
		log  *bytes.Buffer
	}{
		{"by-channels", views.Config[Total]{}, &program},
		{"by-itself", views.Config[Total]{Logger: slog.New(slog.NewTextHandler(&own, nil))}, &own},
	} {
		key := func(*http.Request) string { return "ada" }
		unfit := func(string, Total) any { return make(chan int) } // JSON can't have it
		ask(views.New(channels, tt.name, tt.cfg).Handler(key, unfit), "GET", "/")
		if got := tt.log.String(); strings.Count(got, "a view can't be encoded") != 1 || !strings.Contains(got, "view="+tt.name) {
			t.Errorf("%s: got log %q", tt.name, got)
		}
	}
	handlers.NewRegistry(channels, handlers.Config{}).Inside().Logger.Info("from a handler")
	if got := program.String(); !strings.Contains(got, "from a handler") {
		t.Errorf("the registry logs elsewhere; got %q", got)
	}
}
