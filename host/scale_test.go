package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// answer asks an address.
func answer(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// adminOf waits for the address for operators.
func adminOf(t *testing.T, r *run, before string) string {
	t.Helper()
	_, url, _ := strings.Cut(r.line(t, before), before)
	url, _, _ = strings.Cut(url, " ")
	return strings.TrimRight(url, "./")
}

// value returns the number in the form that KEDA's scaler of type metrics-api reads, with valueLocation "value".
func value(t *testing.T, url string) float64 {
	t.Helper()
	status, body := answer(t, url)
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s, %v", status, body, err)
	}
	n, ok := got["value"].(float64)
	if !ok {
		t.Fatalf("no number at the path value: %s", body)
	}
	return n
}

// A web without a worker tells how many workers its queues could use. So workers can be scaled from none. A paused
// queue needs none.
func TestScaleOfAWeb(t *testing.T) {
	t.Parallel()
	p := shop()
	p.Start = func(ctx context.Context, a *host.App) error {
		return a.Channels.Send(ctx, orders(450)...)
	}
	r := start(t, p, "web", "-addr=127.0.0.1:0", "-admin=127.0.0.1:0")
	admin := adminOf(t, r, "Operators have ")
	worldtest.Want(t, "useful workers", value(t, admin+"/scale?queue=orders"), 3)
	for _, bad := range []string{"/scale", "/scale?queue=", "/scale?queue=order", "/scale?queue=poison"} {
		status, body := answer(t, admin+bad)
		if status != http.StatusNotFound || !strings.Contains(body, "with one of orders") {
			t.Errorf("%s: got %d %s, want 404 and what there is", bad, status, body)
		}
	}
	status, _ := answer(t, strings.TrimRight(r.url(t), "/")+"/scale?queue=orders")
	worldtest.Want(t, "status at the public address", status, http.StatusNotFound)

	// An answer counts for some seconds, so another program is asked after the pause.
	if code, out := operate(t, r, p, "queues", "pause", "orders", "-why=stocktaking"); code != host.ExitOK {
		t.Fatal(out)
	}
	again := &run{output: newOutput()}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- host.Run(ctx, host.Process{Args: []string{"web", "-addr=127.0.0.1:0", "-admin=127.0.0.1:0", "-store=sqlite:" + r.dir + "/shop.db"}, Stdout: again, Stderr: again}, shop())
	}()
	defer func() {
		stop()
		<-ended
	}()
	worldtest.Want(t, "useful workers of a paused queue", value(t, adminOf(t, again, "Operators have ")+"/scale?queue=orders"), 0)
}

// While the service behind a queue is away, one worker is enough to ask whether it is back.
func TestScaleWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	bank := guard.New("bank", guard.Config{})
	p := shop()
	p.Guards = map[string]*guard.Guard{"orders": bank}
	p.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", guard.Around(bank, func(context.Context, order) error { return errors.New("connection refused") }))
		return nil
	}
	p.Start = func(ctx context.Context, a *host.App) error {
		var all []channel.Message
		for range 20 {
			all = append(all, orders(50)...)
		}
		return a.Channels.Send(ctx, all...)
	}
	r := start(t, p, "worker", "-admin=127.0.0.1:0")
	admin := adminOf(t, r, "health and metrics at ")
	r.line(t, `"queue is paused: nothing is taken off it"`)
	worldtest.Want(t, "useful workers", value(t, admin+"/scale?queue=orders"), 1)
	for verb, want := range map[string]string{"queues show orders": `"guard":"bank"`, "doctor": `"waits":["orders"]`} { // the program publishes that meanwhile
		worldtest.Eventually(t, func() error {
			if _, out := operate(t, r, p, append(strings.Fields(verb), "--json")...); !strings.Contains(out, want) {
				return fmt.Errorf("%s tells %s, want %s", verb, out, want)
			}
			return nil
		})
	}
}

// A web without a worker knows by the guard's document that the service is away.
func TestScaleOfAWebWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	p := shop()
	p.Guards = map[string]*guard.Guard{"orders": guard.New("bank", guard.Config{})}
	p.Start = func(ctx context.Context, a *host.App) error {
		if _, err := a.Store.Blobs("guards").Put(ctx, "bank", []byte(`{"epoch":1,"open":true,"ill":["x","y"]}`), storage.Condition{}); err != nil {
			return err
		}
		return a.Channels.Send(ctx, orders(450)...)
	}
	r := start(t, p, "web", "-addr=127.0.0.1:0", "-admin=127.0.0.1:0")
	worldtest.Want(t, "useful workers", value(t, adminOf(t, r, "Operators have ")+"/scale?queue=orders"), 1)
}

// A guard for a queue that nobody handles is a mistake of the program.
func TestAGuardOfNoQueue(t *testing.T) {
	t.Parallel()
	for _, guards := range []map[string]*guard.Guard{{"order": guard.New("bank", guard.Config{})}, {"orders": nil}} {
		p := shop()
		p.Guards = guards
		r := start(t, p, "worker", "-admin=off")
		worldtest.Want(t, "exit code", <-r.code, host.ExitError)
		r.line(t, "want a guard, and a queue that has a handler")
	}
}
