package host_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
)

// traced runs a program that handles one order, and stops it.
func traced(t *testing.T, env map[string]string) (code int, output string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p := shop()
	p.Start = func(ctx context.Context, a *host.App) error { return a.Channels.Send(ctx, order{}) }
	p.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(context.Context, order) error {
			stop()
			return nil
		})
		return nil
	}
	out := newOutput()
	code = host.Run(ctx, host.Process{
		Args: []string{"worker", "-admin=off", "-store=sqlite:" + filepath.Join(t.TempDir(), "shop.db")}, Stdout: out, Stderr: out,
		Getenv: func(key string) string { return env[key] },
	}, p)
	return code, out.String()
}

// A program sends its last spans before it ends, under its own name.
func TestAProgramSendsItsSpans(t *testing.T) {
	t.Parallel()
	c := tracingtest.NewCollector(t)
	code, out := traced(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	want := "send orders\n  process orders\n    react orders\n  wait orders\n"
	if got := c.Tree("send orders"); code != host.ExitOK || got != want || !c.IsFrom("shop") {
		t.Errorf("got exit code %d and the spans\n%s\nof shop: %v, want 0 and\n%s\n%s", code, got, c.IsFrom("shop"), want, out)
	}
}

// Whatever is wrong with a collector, the program does its work and ends in order. It logs that spans are lost.
func TestTracesNeverFailAProgram(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	refuses := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(func() {
		close(ended)
		hangs.Close()
		refuses.Close()
	})
	for name, c := range map[string]struct{ endpoint, want string }{
		"nobody there": {"http://127.0.0.1:1", "spans can't be sent, and are lost"},
		"it hangs":     {hangs.URL, "the last spans are lost"},
		"it refuses":   {refuses.URL, "spans can't be sent, and are lost"},
		"no URL":       {"collector:4318", "traces are off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := traced(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.endpoint})
			if code != host.ExitOK {
				t.Errorf("got exit code %d, want 0", code)
			}
			wantOrder(t, out, c.want)
		})
	}
}
