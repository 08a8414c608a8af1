package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// newGuarded is a lively shop with a guard, and with priorities in its queue.
func newGuarded(cfg guard.Config) (*lively, *guard.Guard) {
	l, smtp := newLively(), guard.New("smtp", cfg)
	l.Guards = map[string]*guard.Guard{"orders": smtp}
	l.Routes = func() (*channel.Routes, error) {
		return channel.NewRoutes(channel.Command[order]("orders"), channel.Priorities("orders"), channel.Event[paid]("bills"))
	}
	return l, smtp
}

type paid struct{}

func (paid) Kind() channel.Kind { return "test.paid.v1" }

// The settings replace numbers of a guard, and leave its others. When they are taken out, the program's own hold again.
func TestLawAGuardsNumbersAreSettings(t *testing.T) {
	t.Parallel()
	l, smtp := newGuarded(guard.Config{Rate: guard.PerSecond(50), Slots: 9, Break: guard.Break{Of: 40}, Probe: guard.Probe{Most: time.Minute}})
	r := start(t, l.Program, "worker", "-admin=off")
	<-l.apps
	own := smtp.Limits()
	set(t, r, l.Program, "guards.smtp.rate=80", "guards.smtp.break.of=30", "guards.smtp.break.window=20s", "guards.smtp.probe.first=2s")
	r.line(t, `"the numbers of a guard change","guard":"smtp","rate":80,"slots":9,`)
	want := own
	want.Rate, want.Break.Of, want.Break.Window, want.Probe.First = 80, 30, 20*time.Second, 2*time.Second
	worldtest.Want(t, "numbers", smtp.Limits(), want)

	set(t, r, l.Program, "guards.smtp.rate=0", "guards.smtp.slots=0", "guards.smtp.adaptive.most=64", "guards.smtp.break.rate=0.9", "guards.smtp.break.distinct=7", "guards.smtp.probe.most=90s")
	r.line(t, `"guard":"smtp","rate":0,"slots":0,`)
	want.Adaptive = guard.Adaptive{Least: 1, Most: 64}
	want.Rate, want.Slots, want.Break.Rate, want.Break.Distinct, want.Probe.Most = 0, 0, 0.9, 7, 90*time.Second
	worldtest.Want(t, "numbers without limits", smtp.Limits(), want)

	set(t, r, l.Program, "-default=guards.smtp", "queues.orders.weights.low=3")
	r.line(t, `"guard":"smtp","rate":50,"slots":9,`)
	worldtest.Want(t, "numbers after all", smtp.Limits(), own)
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
}

// Numbers and weights that can't be right are refused, with the reason, before anything of the change applies.
func TestBadNumbersAreRefused(t *testing.T) {
	t.Parallel()
	l, smtp := newGuarded(guard.Config{})
	r := start(t, l.Program, "worker", "-admin=off")
	<-l.apps
	own := smtp.Limits()
	for bad, want := range map[string]string{
		"guards.smpt.rate=80":               `the program has no guard "smpt"; want one of smtp`,
		"guards.smtp.rate=-1":               "guards.smtp: guard: limits: Rate is -1",
		"guards.smtp.slots=-1":              "Slots is -1",
		"guards.smtp.limit=1":               "limit",
		"guards.smtp.adaptive.least=2":      "Adaptive.Least is 2 without Most; want Most, too",
		"guards.smtp.adaptive.most=-1":      "Adaptive.Most is -1; want 1 to 10000",
		"guards.smtp.break.rate=1.5":        "Break.Rate is 1.5; want a share up to 1",
		"guards.smtp.break.of=-1":           "Break.Of is -1; want a positive number",
		"guards.smtp.break.distinct=1":      "Break.Distinct is 1; want 2 to 1000",
		"guards.smtp.break.window=soon":     `break.window is "soon"; want a time such as 10s`,
		"guards.smtp.break.window=-1s":      "want a time such as 10s",
		"guards.smtp.break.window=2h":       "Break.Window is 2h0m0s",
		"guards.smtp.break.window=10":       "want a text",
		"guards.smtp.probe.first=0s":        "want a time such as 10s",
		"guards.smtp.probe.first=40s":       "probe.first is 40s and probe.most 30s",
		"guards.smtp.probe.most=2h":         "want positive times up to 1h0m0s",
		"queues.orders.weights.low=101":     "queues.orders.weights: ",
		"queues.orders.weights.high=-1":     "weight high is -1; want 1 to 100",
		"queues.orders.weights.lowest=1":    "lowest",
		"queues.bills.weights.high=2":       "queues.bills.weights: the queue has no priorities",
		"queues.nothing.weights.normal=100": `the program has no queue "nothing"`,
	} {
		if code, out := operate(t, r, l.Program, "settings", "set", bad); code != host.ExitError || !strings.Contains(out, want) {
			t.Errorf("%s: got exit code %d and %s, want %q", bad, code, out, want)
		}
	}
	worldtest.Want(t, "numbers", smtp.Limits(), own)
	unguarded := newLively()
	r = start(t, unguarded.Program, "worker", "-admin=off")
	<-unguarded.apps
	_, out := operate(t, r, unguarded.Program, "settings", "set", "guards.smtp.rate=80")
	worldtest.Want(t, "no guard at all", strings.Contains(out, `the program has no guard "smtp", and no other`), true)
}

// The weights of a queue change while its worker runs: most of the turns are those of Low then.
func TestLawWeightsAreSettings(t *testing.T) {
	t.Parallel()
	const each = 60
	l, _ := newGuarded(guard.Config{})
	l.Worker = worker.Config{Concurrency: 1, MaxInHand: 1}
	handled := make(chan string, 3*each)
	l.Register = func(h *handlers.Registry) error {
		handlers.React(h, "orders", func(ctx context.Context, o order) error {
			if o.Item == "first" {
				l.begun <- struct{}{}
				<-l.finish
			}
			handled <- o.Item
			return nil
		})
		return nil
	}
	r := start(t, l.Program, "worker", "-admin=off")
	app := <-l.apps
	lowOf := func() (n int) { // of the first half of messages, as many of each priority
		send := func(p channel.Priority, item string, n int) {
			var all []channel.Message
			for range n {
				all = append(all, order{Item: item})
			}
			if err := app.Channels.Send(channel.WithPriority(t.Context(), p), all...); err != nil {
				t.Fatal(err)
			}
		}
		send(channel.Normal, "first", 1)
		<-l.begun
		send(channel.High, "high", each)
		send(channel.Low, "low", each)
		l.finish <- struct{}{}
		for i := range 2*each + 1 {
			if item := <-handled; item == "low" && i <= each {
				n++
			}
		}
		return n
	}
	set(t, r, l.Program, "queues.orders.weights.high=1", "queues.orders.weights.low=100")
	r.line(t, `"the weights of a queue change","queue":"orders","high":1,"normal":0,"low":100`)
	worldtest.Eventually(t, func() error { // turns are by time, and this machine may be slow for a while
		if n := lowOf(); n < each*3/4 {
			return fmt.Errorf("%d of Low among the first %d, at 100 parts of 101", n, each)
		}
		return nil
	})
	set(t, r, l.Program, "-default=queues.orders")
	r.line(t, `"the weights of a queue change","queue":"orders","high":0,"normal":0,"low":0`)
	worldtest.Eventually(t, func() error {
		if n := lowOf(); n == 0 || n > each/3 {
			return fmt.Errorf("%d of Low among the first %d, at 1 part of 9", n, each)
		}
		return nil
	})
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
}
