package host_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// An operator pauses each queue of a program that runs, without configuration and whatever the queue's own limiter is.
// The pause holds when the program starts again.
func TestAnOperatorPausesAQueue(t *testing.T) {
	t.Parallel()
	handled, apps := make(chan order, 9), make(chan *host.App, 1)
	p := shop()
	p.Worker.Queues = map[string]worker.QueueConfig{"orders": {Limiter: worker.Limiters()}}
	p.Start = func(_ context.Context, a *host.App) error { apps <- a; return nil }
	p.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(_ context.Context, o order) error { handled <- o; return nil })
		return nil
	}
	r := start(t, p, "-addr=127.0.0.1:0")
	url := strings.TrimSuffix(r.url(t), "/")
	store := "-store=sqlite:" + filepath.Join(r.dir, "shop.db")
	operate := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := host.Run(t.Context(), host.Process{Args: append(args, store), Stdout: &out, Stderr: &out}, p); code != host.ExitOK {
			t.Fatalf("shop %q: got exit code %d and %s", args, code, &out)
		}
		return out.String()
	}
	first := <-apps
	if err := first.Channels.Send(t.Context(), order{Item: "cup"}); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "handled before", <-handled, order{Item: "cup"})
	operate("queues", "pause", "orders", "-for", "1h", "-why", "stocktaking", "-by", "ada")
	r.line(t, "queue is paused: nothing is taken off it")
	worldtest.Want(t, "gauge", strings.Contains(get(t, url+"/metrics"), `millrace_paused{queue="orders"} 1`), true)
	if err := first.Channels.Send(t.Context(), order{Item: "pot"}); err != nil {
		t.Fatal(err)
	}
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)

	ctx, stop := context.WithCancel(t.Context())
	again, ended := newOutput(), make(chan int, 1)
	go func() {
		ended <- host.Run(ctx, host.Process{Args: []string{"worker", "-admin=off", store}, Stdout: again, Stderr: again}, p)
	}()
	again.line(t, "queue is paused by hand")
	again.line(t, "queue is paused: nothing is taken off it")
	<-apps
	worldtest.Want(t, "listed", strings.Contains(operate("queues", "list"), "Paused: orders, by ada"), true)
	worldtest.Want(t, "handled in the pause", len(handled), 0)
	operate("queues", "resume", "orders")
	worldtest.Want(t, "handled after it", <-handled, order{Item: "pot"})
	stop()
	worldtest.Want(t, "exit code", <-ended, host.ExitOK)
}

// get returns the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
