package millrace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The parts between marks stand in the pages that the marks name; TestPages compares them. They are about the program
// of the README.

// docs/testing.md begins
func TestBuy(t *testing.T) {
	buy := millracetest.Decide(t, Stock.Buy)
	buy.Given(Stock{Left: 3}).When(Buy{Item: "tea", N: 2}).Then(Bought{Item: "tea", N: 2}).ThenValue(Stock{Left: 1})
	buy.Given(Stock{Left: 1}).When(Buy{Item: "tea", N: 2}).ThenValue(Stock{Left: 1}) // nothing is emitted
}

// docs/testing.md ends

// docs/testing.md begins
func program() millracetest.Program { return millracetest.Program{Routes: routes, Register: register} }

func TestASale(t *testing.T) {
	millracetest.Run(t, program(), func(t *testing.T, app *millracetest.App) {
		app.Send(Buy{Item: "tea", N: 2}, Buy{Item: "tea", N: 9}) // of 10
		app.Drain()                                              // until nothing is left to do
		app.Advance(72 * time.Hour)                              // at once; what comes due is done
		app.Kill()                                               // as a power failure; Restart is an orderly one
		app.Start()
		if n := millracetest.View(t, sold(app.Channels()), "tea"); n != 2 && n != 9 {
			t.Errorf("sold: got %d, want one of the two", n)
		}
	})
}

// docs/testing.md ends

// docs/testing.md begins
func TestShopUnderFaults(t *testing.T) {
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		sim.Start(program())
		for range 10 {
			sim.Send(Buy{Item: "tea", N: 1 + sim.Rand.IntN(3)})
			sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
		}
		sim.Settle() // the faults end, and the queues empty
		if n := millracetest.View(t, sold(sim.Channels()), "tea"); n < 8 || n > 10 {
			t.Errorf("sold: got %d, want 8 to 10", n)
		}
	})
}

// docs/testing.md ends

// docs/values.md begins
// stocks are the documents that decisions keep. sold are those that pages read.
func stocks(c *channel.Channels) *values.Collection[Stock] {
	return values.New(c, "stock", values.Config[Stock]{Initial: func(item string) Stock { return Stock{Left: 10} }})
}

func look(ctx context.Context, c *channel.Channels) error {
	stock, err := stocks(c).Get(ctx, "teapot", "") // stock.Value.Left, stock.Version
	if err != nil {
		return err
	}
	n, err := sold(c).Get(ctx, "teapot") // from memory, a second old at most
	if err != nil {
		return err
	}
	fresh, version, err := sold(c).GetFresh(ctx, "teapot") // as the store has it now
	fmt.Println(stock.Value.Left, n, fresh, version)
	return err
}

// docs/values.md ends

// docs/values.md begins
// list serves a page of the items that were sold. The next page begins after the last one of this page.
func list(sold *views.View[int]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := []string{}
		for item, err := range sold.Keys(r.Context(), r.FormValue("prefix"), r.FormValue("after")) {
			if err != nil {
				http.Error(w, "the list can't be read at the moment", http.StatusServiceUnavailable)
				return
			}
			if page = append(page, item); len(page) == 20 {
				break
			}
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

// docs/values.md ends

// docs/schedules.md begins
// BuildReport asks for the report of a day.
type BuildReport struct {
	Day time.Time `json:"day"`
}

// Sweep asks somebody to clean up. Run is Tick.Run.
type Sweep struct {
	Run schedule.RunID `json:"run"`
}

func (BuildReport) Kind() channel.Kind { return "shop.build-report.v1" }
func (Sweep) Kind() channel.Kind       { return "shop.sweep.v1" }

func timed() (*channel.Routes, error) { // for web and worker
	return channel.NewRoutes(schedule.Route(), channel.Command[BuildReport]("reports"), channel.Command[Sweep]("sweeps"))
}

func registerTimed(h *handlers.Registry, build func(context.Context, BuildReport) error, clean func(context.Context) error) {
	schedule.Every(h, "nightly-report", schedule.Cron("15 3 * * *", "Europe/Berlin"), func(t schedule.Tick) BuildReport {
		return BuildReport{Day: t.Due}
	}, schedule.Config{})
	schedule.Every(h, "sweep", schedule.Interval(10*time.Minute), func(t schedule.Tick) Sweep {
		return Sweep{Run: t.Run}
	}, schedule.Config{Missed: schedule.None, Overlap: schedule.Skip})

	handlers.React(h, "reports", build)
	handlers.React(h, "sweeps", func(ctx context.Context, m Sweep) error {
		if err := clean(ctx); err != nil {
			return err
		}
		return channel.Send(ctx, schedule.Done{Run: m.Run}) // the next run may begin
	})
}

// docs/schedules.md ends

// docs/guard.md begins
// text tells a phone by somebody else's service. The service knows a repeat by the header Idempotency-Key, which the
// transport sends.
func text(sms *guard.Guard, url string) func(context.Context, Bought) error {
	client := &http.Client{Transport: sms.Transport(nil)}
	return guard.Around(sms, func(ctx context.Context, m Bought) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("sold: "+m.Item))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return guard.CheckStatus(answer)
	})
}

// docs/guard.md ends

// The schedules of their page run: a report each night, and a sweep at a time.
func TestPageOfSchedules(t *testing.T) {
	t.Parallel()
	reports, sweeps := make(chan time.Time, 1000), make(chan bool, 1000)
	p := millracetest.Program{Routes: timed, Register: func(h *handlers.Registry) error {
		registerTimed(h, func(_ context.Context, m BuildReport) error { reports <- m.Day; return nil },
			func(context.Context) error { sweeps <- true; return nil })
		return nil
	}}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		app.Advance(49 * time.Hour)
		if n, m := len(reports), len(sweeps); n != 2 && n != 3 || m < 48*6 || m > 50*6 {
			t.Errorf("in two days: got %d reports and %d sweeps", n, m)
		}
	})
}

// The call of the page about guards is made, and a status that says no is an error of its kind.
func TestPageOfGuards(t *testing.T) {
	t.Parallel()
	status, got := http.StatusAccepted, ""
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		w.WriteHeader(status)
	}))
	defer service.Close()
	call := text(guard.New("sms", guard.Config{Fault: guard.HTTP, Repeatable: true}), service.URL)
	if err := call(t.Context(), Bought{Item: "tea"}); err != nil || got != "sold: tea" {
		t.Errorf("got %q, %v", got, err)
	}
	status = http.StatusNotFound
	var fault *guard.Error
	if err := call(t.Context(), Bought{Item: "tea"}); !errors.As(err, &fault) || fault.Fault.Kind != guard.Permanent {
		t.Errorf("got %v, want a permanent fault", err)
	}
}

// The functions of the page about values and views do what the page says.
func TestPageOfValues(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, program(), func(t *testing.T, app *millracetest.App) {
		for i := range 25 {
			app.Send(Buy{Item: fmt.Sprintf("cup-%02d", i), N: 1})
		}
		app.Send(Buy{Item: "teapot", N: 2})
		app.Drain()
		if err := look(t.Context(), app.Channels()); err != nil {
			t.Error(err)
		}
		if left := millracetest.Value(t, stocks(app.Channels()), "teapot").Left; left != 8 {
			t.Errorf("left: got %d, want 8", left)
		}
		pages := list(sold(app.Channels()))
		for url, want := range map[string]string{
			"/":                         `["cup-00","cup-01","cup-02",`,
			"/?after=cup-19":            `["cup-20","cup-21","cup-22","cup-23","cup-24","teapot"]`,
			"/?prefix=cup&after=cup-22": `["cup-23","cup-24"]`,
			"/?prefix=t":                `["teapot"]`,
			"/?after=teapot":            `[]`,
		} {
			answer := httptest.NewRecorder()
			pages(answer, httptest.NewRequest("GET", url, nil))
			if got := answer.Body.String(); answer.Code != http.StatusOK || !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %d %s, want %s", url, answer.Code, got, want)
			}
		}
	})
}
