package ops_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/worker"
)

// newShop runs a program with a plan for parcels on a store of its own, until the test ends.
func newShop(t *testing.T, plan string, steps func(*process.Plan[parcel])) *site {
	t.Helper()
	x := &site{World: worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, process.Route(plan)), tokens: map[act.Role]string{}}
	if err := process.Register(x.Registry, plan, process.Version(1, steps)); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "shop", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	stop := x.Start(worker.Config{})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// newPickups serves the pages of a store with two parcels: o1 waits for its courier, and the courier of o2 has come.
func newPickups(t *testing.T) *site {
	t.Helper()
	x := newShop(t, "pick", func(p *process.Plan[parcel]) {
		process.Then(p, "pack", func(x parcel) parcel { return x })
		process.Wait(p, "fetch", func(x parcel, e pickedUp) parcel { x.Courier = e.Courier; return x }).Within(48 * time.Hour)
	})
	all := process.Open[parcel](x.Channels, "pick")
	for _, id := range []string{"o1", "o2"} {
		if err := all.Start(t.Context(), id, parcel{Order: "Ada's order"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.Signal(t.Context(), "o2", pickedUp{"Bob"}); err != nil {
		t.Fatal(err)
	}
	worldtest.Eventually(t, func() error {
		one, err := all.Get(t.Context(), "o1")
		if err != nil {
			return err
		}
		two, err := all.Get(t.Context(), "o2")
		if err == nil && (one.WaitsFor == nil || two.Status != process.Completed) {
			err = fmt.Errorf("they are %s and %s", one.Status, two.Status)
		}
		return err
	})
	x.serve(t, x.Store)
	return x
}

// offered are the verbs of acts that a page offers as buttons, in order.
func offered(page string) (verbs []string) {
	tools, _, _ := strings.Cut(page[strings.Index(page, `<ul class="tools"`):], "</ul>")
	for _, part := range strings.Split(tools, "/do/")[1:] {
		verb, _, _ := strings.Cut(part, "?")
		_, verb, _ = strings.Cut(verb, "/")
		verbs = append(verbs, verb)
	}
	return verbs
}

// The page of an instance that waits says for which signal, since when, until when and what happens then. The form of
// the signal has the kind.
func TestAnInstanceThatWaitsSaysForWhat(t *testing.T) {
	t.Parallel()
	x := newPickups(t)
	page := x.want(t, 200, ask{path: "processes/o1?plan=pick", role: act.Operator}, "waits for a signal of kind shop.picked-up.v1 since 2", " UTC; without it the step fails at 2",
		" UTC, and what was done before is undone.", `do/processes/signal?id=o1&amp;kind=shop.picked-up.v1&amp;plan=pick">Send the signal</a>`,
		`do/processes/signal?id=o1&amp;kind=shop.picked-up.v1&amp;plan=pick" title=`)
	if strings.Contains(page, "Ada") {
		t.Error("the page has the content")
	}
	x.want(t, 200, ask{path: "do/processes/signal?id=o1&kind=shop.picked-up.v1&plan=pick", role: act.Operator}, `name="kind" value="shop.picked-up.v1"`)
	if page := x.want(t, 200, ask{path: "processes/o2?plan=pick", role: act.Operator}); strings.Contains(page, "waits for a signal") {
		t.Error("an instance that has ended waits for a signal")
	}
	if page := x.want(t, 200, ask{path: "processes/o1?plan=pick", role: act.Viewer}, "waits for a signal of kind"); strings.Contains(page, "do/processes/signal") {
		t.Error("a viewer is offered the signal")
	}
}

// Law: the page of an instance offers no act that the instance would refuse as it stands. An act that undoes is marked
// as an act that destroys.
func TestLawAPageOffersWhatAnInstanceTakes(t *testing.T) {
	t.Parallel()
	x := newPickups(t)
	for id, want := range map[string]string{"o1": "[show signal cancel nudge]", "o2": "[show rerun nudge]"} {
		page := x.want(t, 200, ask{path: "processes/" + id + "?plan=pick", role: act.Operator})
		worldtest.Want(t, "acts on "+id, fmt.Sprint(offered(page)), want)
	}
	x.want(t, 200, ask{path: "processes/o1?plan=pick", role: act.Operator}, `<a class="button bad" href="./../do/processes/cancel?`, `<a class="button" href="./../do/processes/nudge?`)
	x.want(t, 200, ask{path: "processes/o2?plan=pick", role: act.Operator}, `<a class="button bad" href="./../do/processes/rerun?`)
	if page := x.want(t, 404, ask{path: "processes/o3?plan=pick", role: act.Operator}); strings.Contains(page, "do/processes/") {
		t.Error("an instance that isn't there is offered acts")
	}
	page := newDoubts(t, 1).want(t, 200, ask{path: "processes/o1?plan=pay", role: act.Operator})
	worldtest.Want(t, "acts on one in doubt", fmt.Sprint(offered(page)), "[show signal cancel retry skip fail rerun nudge]")
}

// An instance that is shown with its content has the page that it has without, and the audit log has the reason.
func TestARevealedInstanceHasItsPage(t *testing.T) {
	t.Parallel()
	x := newPickups(t)
	x.want(t, 200, ask{path: "processes/o1?plan=pick", role: act.Operator}, "<h2>State</h2>", "&#34;order&#34;: &#34;text of 11&#34;")
	form := url.Values{"id": {"o1"}, "plan": {"pick"}, "reveal": {"true"}, "why": {"the customer asks"}}
	page := x.want(t, 200, ask{method: "POST", path: "do/processes/show", form: form, role: act.Operator}, `<table class="steps">`, "Ada&#39;s order", "With its content",
		`href="./../../do/processes/cancel?id=o1&amp;plan=pick"`, "waits for a signal of kind")
	worldtest.Want(t, "acts", fmt.Sprint(offered(page)), "[signal cancel nudge]")
	if strings.Contains(page, "data-live") {
		t.Error("the page would be fetched again, without its content")
	}
	x.want(t, 200, ask{path: "audit", role: act.Operator}, "the customer asks")
	x.want(t, 200, ask{method: "POST", path: "do/processes/show", json: `{"id": "o1", "reveal": true, "why": "the customer asks"}`, header: program, role: act.Operator}, `"order":"Ada's order"`)
}
