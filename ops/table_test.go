package ops_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// Law: the page of each noun shows something without being told more: a list, or a choice of what the list needs.
func TestLawEachNounHasAPage(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	for _, name := range []string{"shop", "tables"} {
		if _, err := x.Store.Blobs("settings").Put(t.Context(), name+"/current", []byte(`{"epoch":3,"last":2,"stable":1,"values":{"seats":41}}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range acts.All() {
		if !a.OnPages() {
			continue
		}
		if body := x.want(t, 200, ask{path: a.Noun, role: act.Viewer}); strings.Contains(body, `class="error"`) && a.Noun != "find" {
			t.Errorf("the page of %s has an error:\n%s", a.Noun, body)
		}
	}
	x.want(t, 200, ask{path: "turns", role: act.Admin}, "Choose a queue", `href="./turns?queue=accounts"`, `href="./do/turns/release"`)
	x.want(t, 200, ask{path: "settings", role: act.Viewer}, "Choose one of the settings", `href="./settings?of=shop"`, `href="./settings?of=tables"`)
	x.want(t, 200, ask{path: "messages", role: act.Viewer}, "Choose a queue", `href="./queues/accounts"`)
	x.want(t, 400, ask{path: "turns", role: act.Viewer, header: program})
	x.want(t, 200, ask{path: "turns?queue=accounts", role: act.Viewer}, "No key is held")
}

// A key of a queue has a page, with the act that releases it.
func TestATurnHasAPage(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	putErrors(t, s)
	x.want(t, 200, ask{path: "turns?queue=accounts", role: act.Admin}, `href="./turns/accounts/halted"`)
	x.want(t, 200, ask{path: "turns/accounts/halted", role: act.Admin}, "halted", html.EscapeString("do/turns/release?key=halted&queue=accounts"))
	if body := x.want(t, 200, ask{path: "turns/accounts/halte", role: act.Admin}); strings.Contains(body, ">halted</") {
		t.Errorf("the page of another key has\n%s", body)
	}
}

// The list of a queue's messages goes on where the page ends, as all lists do.
func TestListsGoOn(t *testing.T) {
	t.Parallel()
	const waiting, poisoned = 70, 130
	x := newSite(t, worldtest.OpenStore(t, ""))
	for i := range waiting {
		worldtest.Send(x.World, worldtest.Add{To: fmt.Sprintf("customer-%02d", i), Amount: 1})
	}
	for i := range poisoned {
		const body = `{"reason":"odd","error":"x","worker":"w","attempts":1,"body":"e30="}`
		if _, err := x.Store.Blobs("poison").Put(t.Context(), fmt.Sprintf("%s/%032x", worldtest.Accounts, i), []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 120 {
		if _, err := x.Store.Blobs("accounts").Put(t.Context(), fmt.Sprintf("customer-%03d", i), []byte("{}"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	on := regexp.MustCompile(`<a class="button" href="([^"]*)">The next ones</a>`)
	// all follows the links from a page, and returns what the rows lead to.
	all := func(from string, row *regexp.Regexp) map[string]bool {
		t.Helper()
		got := map[string]bool{}
		for range 10 {
			body := x.want(t, 200, ask{path: from, role: act.Viewer})
			for _, m := range row.FindAllStringSubmatch(body, -1) {
				if got[m[1]] {
					t.Errorf("%s: %s is listed twice", from, m[1])
				}
				got[m[1]] = true
			}
			if strings.Contains(body, "--skip") || strings.Contains(body, "--after") {
				t.Errorf("%s names a flag beside its link", from)
			}
			next := on.FindAllStringSubmatch(body, -1)
			if len(next) == 0 {
				return got
			}
			base, err := url.Parse("/ops/" + from)
			if err != nil {
				t.Fatal(err)
			}
			to, err := base.Parse(html.UnescapeString(next[len(next)-1][1]))
			if from == "queues/accounts" && strings.Contains(row.String(), "messages") {
				to, err = base.Parse(html.UnescapeString(next[0][1]))
			}
			if err != nil {
				t.Fatal(err)
			}
			from = strings.TrimPrefix(to.RequestURI(), "/ops/")
		}
		t.Fatal("the list has no end")
		return nil
	}
	worldtest.Want(t, "waiting messages", len(all("queues/accounts", regexp.MustCompile(`href="[./]*messages/accounts/([^"?]*)`))), waiting)
	worldtest.Want(t, "poison messages", len(all("queues/accounts", regexp.MustCompile(`href="[./]*poison/([^"?]*)`))), poisoned)
	worldtest.Want(t, "documents", len(all("values/accounts", regexp.MustCompile(`href="[./]*values/accounts/([^"?]*)`))), 120)
	if body := x.want(t, 200, ask{path: "queues/accounts", role: act.Viewer}, "The next ones"); strings.Contains(body, "There are more") {
		t.Error("a page tells in words what its button does")
	}
	x.want(t, 200, ask{path: "do/queues/peek?queue=accounts", role: act.Viewer, header: program}, `There are more: \"skip\" 32 shows them.`, `"next":{"skip":"32"}`)
}

// An instance is found by its plan and its ID, as people write the two.
func TestAnInstanceInItsPlan(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	for path, want := range map[string]string{"processes/fulfil/order-1041": "../order-1041?plan=fulfil", "processes/fulfil/a%2Fb%20c": "../a%2Fb%20c?plan=fulfil"} {
		code, _, header := x.askAll(t, ask{path: path, role: act.Viewer})
		if code != 301 || header.Get("Location") != want {
			t.Errorf("%s: got %d to %q, want %q", path, code, header.Get("Location"), want)
		}
	}
	x.want(t, 400, ask{path: "processes/nope/order-1041", role: act.Viewer})
}

// Law: each link of a message's page leads to a page that is there. A cause that is gone is said to be so, without a
// link.
func TestLawTheLinksOfAMessageLeadSomewhere(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	send := func(id, first string, bad bool) {
		t.Helper()
		e := worldtest.Envelope(id, worldtest.Add{To: "ada", Amount: 3})
		e.Correlation, e.Causation = first, first
		if bad {
			e.Data = []byte(`{"to":5}`)
		}
		body, err := e.Encode()
		if err == nil {
			err = x.Store.Queue(worldtest.Accounts).Send(t.Context(), []storage.Message{{Body: body}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send("m-bad", "", true)
	x.RunUntilIdle(worker.Config{})
	for id, first := range map[string]string{"m-first": "", "m-second": "m-first", "m-third": "m-gone", "m-fourth": "m-bad"} {
		send(id, first, false)
	}
	link := regexp.MustCompile(`<a[^>]* href="([^"]*)"`)
	for id, want := range map[string]string{"m-first": "waiting", "m-second": `messages/accounts/m-first"`, "m-third": "not seen: gone", "m-fourth": `messages/accounts/m-bad"`} {
		path := "messages/accounts/" + id
		page := x.want(t, 200, ask{path: path, role: act.Viewer}, want)
		base, err := url.Parse("/ops/" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			to, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			x.want(t, 200, ask{path: strings.TrimPrefix(to.RequestURI(), "/ops/"), role: act.Viewer})
		}
	}
}
