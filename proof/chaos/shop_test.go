package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/process"
)

// A shop that nothing disturbs comes to all kinds of ends, and the auditor is content with them.
func TestShop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &shopWorld{world: world{j: journalOf(t)}, customers: newCustomers(30, time.Second, 1)}
	for _, c := range w.customers {
		c.picks, c.Fate.Slow = min(c.picks, 1), c.Fate.Slow/50
	}
	w.spec = shopSpec{
		Store: "sqlite:" + filepath.Join(dir, "shop.db?sync=normal"), Dir: dir, Stock: 20,
		Hurry: time.Minute, Picked: 300 * time.Millisecond, Backoff: time.Millisecond,
	}
	w.spec.Bank, w.spec.Carrier = serve(t, dir, bankName).URL, serve(t, dir, carrierName).URL
	var err error
	if w.channels, err = openChannels(t.Context(), w.spec.Store); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.channels.Store().Close() })
	if w.looker, err = process.Look(w.channels.Store(), fulfilment, "/test"); err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		spec := w.spec
		spec.Name = name
		s, err := newShop(spec)
		if err != nil {
			t.Fatal(err)
		}
		go func() { stopped <- errors.Join(s.run(working, slog.New(slog.DiscardHandler)), s.close()) }()
	}
	w.counter = &counter{orders: process.Open[purchase](w.channels, fulfilment), j: w.j, begun: time.Now()}
	w.counter.serveAll(t.Context(), w.customers)
	if err := until(t.Context(), patience, func() (bool, error) { return w.isQuiet(t.Context()), nil }); err != nil {
		t.Errorf("something still moves: %v", err)
	}
	h := &shopHistory{customers: w.customers, stock: w.spec.Stock}
	if err := h.collect(t.Context(), w.channels, w.looker, dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(h.audit(), w.j.found...) {
		t.Error(f)
	}
	ends := h.ends()
	for _, want := range []string{" completed", `refused at "reserve"`, `refused at "charge"`, `failed at "charge"`, `refused at "book"`, `out of time at "picked"`} {
		if !strings.Contains(ends, want) {
			t.Errorf("got %s, want some %s", ends, want)
		}
	}
	stop()
	for range 2 {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
}

// serve serves a service that has its journal in dir.
func serve(t *testing.T, dir, name string) *httptest.Server {
	t.Helper()
	v, err := newService(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.close() })
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	return server
}

// A service answers a key as before, also after it was killed in the middle of a line, and does something else for
// another key.
func TestServiceKnowsItsKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &shop{http: http.DefaultClient}
	ask := func(url string, r request) string {
		t.Helper()
		status, receipt, err := s.post(url, r)
		if err != nil {
			t.Fatal(err)
		}
		return http.StatusText(status) + " " + receipt
	}
	bank := serve(t, dir, bankName).URL
	first := ask(bank, request{Verb: charges, Key: "k1"})
	for _, x := range []struct {
		r    request
		want string
	}{
		{request{Verb: charges, Key: "k1"}, first},
		{request{Verb: charges, Key: "k2", Decline: true}, "Payment Required "},
		{request{Verb: charges, Key: "k3", Away: 1}, "Service Unavailable "},
		{request{Verb: charges, Key: "k4", Undo: "r4"}, "OK r4"},
		{request{Verb: charges, Key: "k5", Undo: "r4"}, "OK r4"}, // it relies on its clients
		{request{Verb: charges}, "Bad Request no such request: <nil>\n"},
	} {
		if got := ask(bank, x.r); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.r, got, x.want)
		}
	}
	deeds, whole, err := readDeeds(dir, bankName)
	if err != nil || len(deeds) != 6 {
		t.Fatalf("got %d deeds, %v, want 6", len(deeds), err)
	}
	text, err := json.Marshal(deeds[0])
	if err != nil {
		t.Fatal(err)
	}
	appendFile(t, journalOfService(dir, bankName), string(text[:20]))
	bank = serve(t, dir, bankName).URL
	if got := ask(bank, request{Verb: charges, Key: "k1"}); got != first {
		t.Errorf("after a kill: got %q, want %q", got, first)
	}
	if got := ask(bank, request{Verb: charges, Key: "k3", Away: 1}); !strings.HasPrefix(got, "OK charge-") || got == first {
		t.Errorf("another key, turned away before: got %q, want another receipt than %q", got, first)
	}
	if deeds, now, err := readDeeds(dir, bankName); err != nil || len(deeds) != 8 || now <= whole {
		t.Errorf("got %d deeds, %v, want 8", len(deeds), err)
	}
}

// A request whose answer is slow is one that waits.
func TestServiceTellsWhoWaits(t *testing.T) {
	t.Parallel()
	w := &shopWorld{}
	w.spec.Bank = serve(t, t.TempDir(), bankName).URL
	s := &shop{http: http.DefaultClient}
	answered := make(chan error)
	go func() {
		_, _, err := s.post(w.spec.Bank, request{Verb: charges, Key: "k1", Order: "order-1", By: "worker-1-7", Slow: time.Second})
		answered <- err
	}()
	err := until(t.Context(), patience, func() (bool, error) {
		return reflect.DeepEqual(w.slowOnes(t.Context()), []held{{"order-1", "worker-1-7"}}), nil
	})
	if err != nil {
		t.Errorf("nobody waits: %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if got := w.slowOnes(t.Context()); len(got) > 0 {
		t.Errorf("got %v, want nobody after the answer", got)
	}
}

// An agent returns when it knows whether the effect was made. Until then it asks again, even if its time is over.
func TestAgentAsksUntilItKnows(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	for name, c := range map[string]struct {
		answers []int // statuses; 0: the connection breaks
		late    bool  // before the first request
		unsure  bool
		want    string
		asked   int64
	}{
		"done":                 {answers: []int{http.StatusOK}, want: "r1", asked: 1},
		"the answer is lost":   {answers: []int{0, http.StatusOK}, want: "r1", asked: 2},
		"lost, and away":       {answers: []int{0, http.StatusServiceUnavailable, http.StatusOK}, want: "r1", asked: 3},
		"lost, and a failure":  {answers: []int{0, http.StatusInternalServerError, http.StatusOK}, want: "r1", asked: 3},
		"lost, and not sure":   {answers: []int{0}, unsure: true, want: errOpen.Error(), asked: 1},
		"away":                 {answers: []int{http.StatusServiceUnavailable}, want: errAway.Error(), asked: 1},
		"declined":             {answers: []int{http.StatusPaymentRequired}, want: "refused: declined", asked: 1},
		"it is over before":    {answers: []int{http.StatusOK}, late: true, want: "late"},
		"over while it waits":  {answers: []int{-1, 0, http.StatusOK}, want: "r1", asked: 3},
		"nobody listens there": {want: errAway.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				switch status := c.answers[asked.Add(1)-1]; status {
				case -1:
					end(late)
					panic(http.ErrAbortHandler)
				case 0:
					panic(http.ErrAbortHandler) // breaks the connection
				default:
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "r1")
				}
			}))
			defer server.Close()
			url := server.URL
			if c.answers == nil {
				server.Close()
			}
			if c.late {
				ctx = over
			}
			s := &shop{http: &http.Client{Transport: &http.Transport{}}}
			got, err := s.ask(ctx, url, request{Verb: charges, Key: "k1"}, !c.unsure)
			if err != nil {
				got = err.Error()
			}
			if got != c.want || asked.Load() != c.asked {
				t.Errorf("got %q after %d requests, want %q after %d", got, asked.Load(), c.want, c.asked)
			}
		})
	}
}

// Customers follow from their seed, and even few of them have every fate.
func TestCustomersHaveEveryFate(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(newCustomers(60, time.Minute, 7), newCustomers(60, time.Minute, 7)) || reflect.DeepEqual(newCustomers(60, time.Minute, 7), newCustomers(60, time.Minute, 8)) {
		t.Error("customers don't follow from their seed alone")
	}
	for _, n := range []int{30, 60, 1000} {
		got := map[string]int{}
		ids := map[string]bool{}
		for _, c := range newCustomers(n, time.Minute, 7) {
			ids[c.ID] = true
			for fate, has := range map[string]bool{
				"hurry": c.Fate.Hurry, "poor": c.Fate.Poor, "unwelcome": c.Fate.Unwelcome, "turned away": c.Fate.Away > 0, "for ever": c.Fate.Away > 5,
				"rare": c.Item == rare, "lost": c.Fate.Lost, "nobody comes": c.picks == 0, "cancels": c.cancels > 0,
			} {
				if has {
					got[fate]++
				}
			}
			if c.starts < 0 || c.starts > time.Minute || len(c.Lines) == 0 {
				t.Errorf("got %+v", c)
			}
		}
		if len(got) != 9 || len(ids) != n {
			t.Errorf("%d customers: got %d names, and the fates %v, want all 9", n, len(ids), got)
		}
		if got["rare"] <= stockOf(rare, n/plentiful) {
			t.Errorf("%d customers: %d want the rare item, and there are %d: want too few", n, got["rare"], stockOf(rare, n/plentiful))
		}
	}
}
