package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/process"
)

var errBroken = errors.New("the line is dead")

// always makes a call fail with an error.
func always(failing string, err error) func(context.Context, string, string) error {
	return func(_ context.Context, call, _ string) error {
		if call == failing {
			return err
		}
		return nil
	}
}

func TestStockDecides(t *testing.T) {
	t.Parallel()
	two := []Line{{"teapot", 2}}
	id := ID{"17"}
	held := Stock{Taken: map[string]int{"teapot": 4}, Held: map[string][]Line{"17": two}}
	millracetest.Decide(t, Stock.Reserve).Given(Stock{Taken: map[string]int{"teapot": 2}}).When(Reserve{id, two}).
		Then(Held{id}).ThenValue(held)
	millracetest.Decide(t, Stock.Reserve).Given(held).When(Reserve{ID{"18"}, two}).Then(NoStock{ID{"18"}, "teapot"}).ThenValue(held)
	millracetest.Decide(t, Stock.Release).Given(held).When(Release{id}).ThenValue(Stock{Taken: map[string]int{"teapot": 2}})
	millracetest.Decide(t, Stock.Release).Given(held).When(Release{ID{"18"}}).ThenValue(held)
	millracetest.Decide(t, Stock.Sell).Given(held).When(Sell{id}).Then(Sold{id}).ThenValue(Stock{Taken: map[string]int{"teapot": 4}})
}

// Each way that an order can end.
func TestOrders(t *testing.T) {
	t.Parallel()
	nobody := func(*testing.T, *process.Instances[Order], Order) {}
	cancel := func(t *testing.T, orders *process.Instances[Order], o Order) {
		t.Helper()
		if err := orders.Cancel(t.Context(), o.Order, "the customer", "found it cheaper"); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		count   int
		failing string // call
		err     error
		then    func(*testing.T, *process.Instances[Order], Order) // when it has been packed, or has failed
		want    process.Status
		says    string
	}{
		{"happy", 2, "", nil, pickUp, process.Completed, ""},
		{"no stock", 6, "", nil, nobody, process.Aborted, "refused: shop.nostock.v1"},
		{"no money", 1, "charge", ErrDeclined, nobody, process.Aborted, "refused: declined"},
		{"no bank", 1, "charge", errBroken, nobody, process.Aborted, "the line is dead"},
		{"no carrier", 1, "ship", errBroken, pickUp, process.Aborted, "the line is dead"},
		{"nobody comes", 1, "", nil, nobody, process.Aborted, "no end within 48h0m0s"},
		{"cancelled", 1, "", nil, cancel, process.Canceled, "canceled by the customer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.before = always(test.failing, test.err)
			w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
				o := order("17", test.count)
				start(t, orders, o)
				start(t, orders, o) // twice is once
				app.Drain()
				app.Advance(30 * time.Minute)
				test.then(t, orders, o)
				app.Advance(49 * time.Hour)
				w.check(t, app.Channels(), o)
				if s, err := orders.Get(t.Context(), "17"); err != nil || s.Status != test.want || s.Error != test.says {
					t.Errorf("got %s, %q, %v; want %s, %q", s.Status, s.Error, err, test.want, test.says)
				}
			})
		})
	}
}

// The bank charges, and its line is dead before it has said so. The customer is charged once. If that goes on, the
// charge is taken back.
func TestFlakyBank(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]process.Status{3: process.Completed, 100: process.Aborted} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.after = func(ctx context.Context, call, _ string) error {
				if call == "charge" && process.Attempt(ctx) <= failures {
					return errBroken
				}
				return nil
			}
			w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
				o := order("17", 1)
				start(t, orders, o)
				pickUp(t, orders, o)          // the courier is early
				app.Advance(15 * time.Minute) // the time for the charge is over
				w.check(t, app.Channels(), o)
				if s, err := orders.Get(t.Context(), "17"); err != nil || s.Status != want {
					t.Errorf("got %+v, %v; want %s", s, err, want)
				}
			})
		})
	}
}

// The bank is closed until the time for the charge is over. Then nobody asks it any more.
func TestTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld()
	asked := 0
	w.before = func(_ context.Context, call, _ string) error {
		if asked++; asked == 1 {
			return handlers.Later(20*time.Minute, "the bank is closed")
		}
		return nil
	}
	w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
		o := order("17", 1)
		start(t, orders, o)
		app.Advance(time.Hour)
		w.check(t, app.Channels(), o)
		s, err := orders.Get(t.Context(), "17")
		if err != nil || s.Status != process.Aborted || s.Error != "no end within 10m0s" || asked != 1 {
			t.Errorf("got %s, %q, %v, and the bank was asked %d times; want an aborted order, and 1", s.Status, s.Error, err, asked)
		}
	})
}

// The worker is killed when the bank has charged and has not said so, and again when the parcel is under way.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
		kills := 0
		w.after = func(context.Context, string, string) error {
			if kills++; kills%3 != 0 {
				app.Kill()
			}
			return nil
		}
		o := order("17", 1)
		start(t, orders, o)
		pickUp(t, orders, o)
		app.Drain()
		if kills != 6 {
			t.Errorf("the bank and the carrier were asked %d times; want 6", kills)
		}
		w.check(t, app.Channels(), o)
		if s, err := orders.Get(t.Context(), "17"); err != nil || s.Status != process.Completed {
			t.Errorf("got %s, %v; want a completed order", s.Status, err)
		}
	})
}

// A delivery kills each worker, until it is given up: the parcel is recalled. An operator retries the delivery after
// that: nothing is shipped.
func TestRetryAfterCompensation(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
		w.after = func(_ context.Context, call, _ string) error {
			if call == "ship" {
				app.Kill()
			}
			return nil
		}
		o := order("17", 1)
		start(t, orders, o)
		pickUp(t, orders, o)
		app.Advance(2 * time.Hour)
		w.after = always("", nil)
		app.Advance(time.Minute)
		entries := app.Poison()
		if s, err := orders.Get(t.Context(), "17"); err != nil || s.Status != process.Aborted || len(entries) == 0 {
			t.Fatalf("got %s, %v, %d entries in the poison queues; want an aborted order and some", s.Status, err, len(entries))
		}
		for _, e := range entries {
			if err := poison.At(app.Channels(), e.Queue).Retry(t.Context(), e.Key); err != nil {
				t.Fatal(err)
			}
		}
		app.Drain()
		w.check(t, app.Channels(), o)
	})
}

// An order that has failed is run again by an operator, from its first step. It is charged anew.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.before = always("ship", errBroken)
	w.run(t, func(t *testing.T, app *millracetest.App, orders *process.Instances[Order]) {
		o := order("17", 1)
		start(t, orders, o)
		pickUp(t, orders, o)
		app.Advance(time.Hour)
		w.check(t, app.Channels(), o)
		w.before = always("", nil)
		look, err := process.Look(app.Store(), "fulfil", "/test")
		if err == nil {
			_, err = look.Operator("ada", "the line is mended").Rerun(t.Context(), "17", "01")
		}
		if err != nil {
			t.Fatal(err)
		}
		pickUp(t, orders, o)
		app.Drain()
		w.check(t, app.Channels(), o)
		if s, err := orders.Get(t.Context(), "17"); err != nil || s.Status != process.Completed {
			t.Errorf("got %s, %v; want a completed order", s.Status, err)
		}
	})
}

// Whatever dies, comes late or comes twice, and whoever says no: money, goods and statuses agree.
func TestOrdersUnderFaults(t *testing.T) {
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		w := newWorld()
		w.before = func(_ context.Context, call, order string) error {
			switch call + order[len(order)-1:] {
			case "charge2":
				return ErrDeclined
			case "charge3", "ship5":
				return errBroken
			}
			return nil
		}
		w.after = func(ctx context.Context, call, order string) error {
			if n := order[len(order)-1:]; call == "charge" && n == "4" && process.Attempt(ctx) < 3 || n == "6" {
				return errBroken // although it was done
			}
			return nil
		}
		sim.Start(w.program())
		orders := process.Open[Order](sim.Channels(), "fulfil")
		var placed []Order
		for i := range 9 {
			o := order(fmt.Sprint(sim.Seed, "-", i), 1+sim.Rand.IntN(2))
			placed = append(placed, o)
			if i%2 == 0 {
				sim.Send(orders.Starting(o.Order, o))
			} else {
				start(t, orders, o)
			}
			sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
			switch i {
			case 7: // nobody comes
			case 8:
				if err := orders.Cancel(t.Context(), o.Order, "the customer", ""); err != nil {
					t.Fatal(err)
				}
			default:
				pickUp(t, orders, o)
			}
		}
		sim.Settle()
		w.check(t, sim.Channels(), placed...)
	})
}

// The requests of the command's comment.
func TestSite(t *testing.T) {
	t.Parallel()
	newWorld().run(t, func(t *testing.T, app *millracetest.App, _ *process.Instances[Order]) {
		h, err := web(site(t, app.Channels()))
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path, body string, want int, says string) {
			t.Helper()
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(w, r)
			if w.Code != want || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s %s: got %d %s; want %d %s", method, path, w.Code, w.Body, want, says)
			}
			app.Drain()
		}
		const teapot = `{"lines":[{"item":"teapot","count":1}],"cents":4900}`
		ask(http.MethodGet, "/orders/17", "", http.StatusNotFound, "")
		ask(http.MethodPut, "/orders/17", teapot, http.StatusAccepted, "")
		ask(http.MethodPut, "/orders/17", teapot, http.StatusAccepted, "")
		ask(http.MethodPut, "/orders/17", `{"lines":[{"item":"cup","count":1}],"cents":900}`, http.StatusConflict, "")
		ask(http.MethodPut, "/orders/18", `{}`, http.StatusUnprocessableEntity, "an order needs lines and a price")
		ask(http.MethodGet, "/orders/17", "", http.StatusOK, `"status":"inprocess","waitsFor":["pickup"]`)
		ask(http.MethodPost, "/orders/17/pickup", `{"courier":"Ada"}`, http.StatusAccepted, "")
		ask(http.MethodGet, "/orders/17", "", http.StatusOK, `"status":"completed"`)
		ask(http.MethodDelete, "/orders/17", "", http.StatusConflict, "It has ended")
		ask(http.MethodPut, "/orders/18", teapot, http.StatusAccepted, "")
		ask(http.MethodDelete, "/orders/18", "", http.StatusAccepted, "")
		ask(http.MethodGet, "/orders/18", "", http.StatusOK, `"status":"canceled"`)
	})
}

// The code beside the domain stays below forty lines.
func TestProgramIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(text), "\nfunc main() {")
	lines := 1
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines >= 40 {
		t.Errorf("main.go has %d lines of code; want fewer than 40", lines)
	}
}
