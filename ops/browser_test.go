package ops_test

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace-go/millrace/internal/browsertest"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
)

// open serves the pages over HTTP, and opens a tab whose person has a role. The address ends with the slash of the
// first page.
func (x *site) open(t *testing.T, role act.Role) (tab *browsertest.Tab, address string) {
	t.Helper()
	tab = browsertest.New(t)
	srv := httptest.NewServer(x.handler)
	t.Cleanup(srv.Close)
	tab.Token(x.tokens[role])
	return tab, srv.URL + "/ops/"
}

// come serves the pages under a path that a proxy has put before the program's, and opens a tab whose person has logged
// in by the form of the page that was asked for.
func (x *site) come(t *testing.T, role act.Role, prefix string) (tab *browsertest.Tab, address string) {
	t.Helper()
	tab = browsertest.New(t)
	srv := httptest.NewServer(http.StripPrefix(prefix, x.handler))
	t.Cleanup(srv.Close)
	address = srv.URL + prefix + "/ops/"
	const page = "queues?x=y"
	tab.Do(browsertest.Open(address+page), browsertest.Type("#token", x.tokens[role]), submit("Log in"), browsertest.Visible("nav"))
	if at := browsertest.Eval[string](tab, "location.href"); at != address+page {
		t.Fatalf("the form leads to %s, want %s", at, address+page)
	}
	return tab, address
}

// pages are the addresses of a page of each sort, of each noun and of each act.
func (x *site) pages() (all []string) {
	id := x.Poisoned("mails")[0].ID
	all = []string{"", "queues/accounts", "queues/invoices", "queues/nope", "poison/" + id, "values/accounts", "values/accounts/customer-01", "views/totals/customer-01",
		"processes/order-1041?plan=fulfil", "processes/order-1043?plan=fulfil", "processes?status=stuck", "schedules/reminders", "locks/stocktaking", "nowhere", "poison/nope",
		"do/poison/show?reveal=true&id=" + id, "do/queues/purge?queue=accounts", "login", "login?once=x"}
	var nouns []string
	for _, a := range acts.All() {
		if !a.OnPages() {
			continue
		}
		if !slices.Contains(nouns, a.Noun) {
			nouns = append(nouns, a.Noun)
		}
		if a.Verb != "list" && a.Verb != "show" { // these are the pages of nouns and of things
			all = append(all, "do/"+strings.ReplaceAll(a.Name(), " ", "/"))
		}
	}
	return append(all, nouns...)
}

// Law: each page fits a phone and a desk, in light and in dark, and needs nothing that its policy forbids. It has one
// heading, and axe-core finds nothing serious.
func TestLawEachPageIsForEverybody(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	tab, address := x.open(t, act.Admin)
	for i, page := range x.pages() {
		tab.Width(1280)
		tab.Dark(false)
		tab.Do(browsertest.Open(address + page))
		look := func(width int64, dark bool) {
			name := fmt.Sprintf("page %q, %d pixels, dark %v", page, width, dark)
			tab.Fits(name)
			tab.Shoot(fmt.Sprintf("ops-%02d-%s-%d-%v", i, regexp.MustCompile(`\W+`).ReplaceAllString(page, "-"), width, dark))
		}
		look(1280, false)
		tab.Axe(page + " in light")
		tab.Width(390)
		look(390, false)
		tab.Dark(true)
		look(390, true)
		tab.Width(1280)
		look(1280, true)
		tab.Axe(page+" in dark", "color-contrast") // the other rules don't ask for colours
		tab.Check(page)
	}
}

// Law: a browser may keep the style sheet, the script and the icon for good, and nothing else. Their names change with
// what they hold.
func TestLawOnlyFilesAreKept(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	_, body := x.ask(t, ask{role: act.Viewer})
	kept := regexp.MustCompile(`"\./((?:style|script|icon)\.[0-9a-f]{16}\.(?:css|js|svg))"`).FindAllStringSubmatch(body, -1)
	if len(kept) != 3 {
		t.Fatalf("got %q in\n%s", kept, body)
	}
	paths := []string{"", "queues", "nowhere", "login", "do/queues/pause", "style.css"}
	for _, m := range kept {
		paths = append(paths, m[1])
	}
	for i, path := range paths {
		for _, role := range []act.Role{0, act.Viewer} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ops/"+path, nil)
			r.Host = "localhost"
			if role != 0 {
				r.Header.Set("Authorization", "Bearer "+x.tokens[role])
			}
			w := httptest.NewRecorder()
			x.handler.ServeHTTP(w, r)
			file := i >= len(paths)-len(kept)
			if cache := w.Header().Get("Cache-Control"); strings.Contains(cache, "immutable") != (file && w.Code == http.StatusOK) || !file && cache != "no-store" {
				t.Errorf("%s: got %d, %q", path, w.Code, cache)
			}
			if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: got the policy %q", path, policy)
			}
			if file && strings.HasPrefix(path, "script") != (role == 0 && w.Code == http.StatusUnauthorized) && role == 0 {
				t.Errorf("%s without a login: got %d", path, w.Code)
			}
		}
	}
}

// submit clicks the button of a form that has a text.
func submit(text string) browsertest.Action {
	return chromedp.Click(chromedp.Search(fmt.Sprintf("//button[starts-with(normalize-space(.), %q)]", text)))
}

// follow clicks the link that has a text.
func follow(text string) browsertest.Action {
	return chromedp.Click(chromedp.Search(fmt.Sprintf("//main//a[normalize-space(.)=%q]", text)))
}

// Each of the main flows is done by clicks alone, under any path of a proxy, and each is in the audit log.
func TestBrowserFlows(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	tab, address := x.come(t, act.Admin, "/a/b")
	tab.Still()
	done := browsertest.Visible("p.good[role=status]")
	left := func(want int) {
		t.Helper()
		worldtest.Want(t, "poison mails", len(x.Poisoned("mails")), want)
	}

	tab.Do(browsertest.Open(address), chromedp.Click(chromedp.Search(`//nav//a[.="Poison"]`)), browsertest.Visible("table"))
	first := tab.Text(`tbody a[href*="poison/m-"]`)
	tab.Do(browsertest.Click(`tbody a[href*="poison/m-"]`), browsertest.Visible(".tools"), follow("Retry"), submit("Retry poison"), done)
	left(poisonedMails - 1)
	if !slices.ContainsFunc(pending(t, x, "mails"), func(id string) bool { return id == first }) {
		t.Errorf("message %s is not back in its queue", first)
	}

	tab.Do(browsertest.Open(address+"poison"), browsertest.Click(`tbody a[href*="poison/m-"]`), browsertest.Visible(".tools"), follow("Edit"),
		browsertest.Type("#f-data", `{"id": "m-06", "to": "bob@example.org", "text": "In short: thanks."}`), browsertest.Type("#f-why", "the text was too long"), submit("Edit poison"), browsertest.Visible("p.error"))
	tab.Check("the refusal of an edit")
	tab.Axe("the refusal of an edit")
	left(poisonedMails - 1)
	tab.Do(browsertest.Click("#f-again"), submit("Edit poison"), done) // a reaction leaves no record
	left(poisonedMails - 2)

	tab.Do(browsertest.Open(address+"processes"), follow("order-1041"), browsertest.Visible(".tools"), follow("Cancel"),
		browsertest.Type("#f-why", "found it cheaper"), submit("Cancel process order-1041"), done)

	tab.Do(browsertest.Open(address+"queues"), follow("accounts"), browsertest.Visible(".tools"), follow("Pause"),
		browsertest.Type("#f-for", "30m"), browsertest.Type("#f-why", "no budget"), submit("Pause queue accounts"), done)
	if said := tab.Text("main"); !strings.Contains(said, `Queue "accounts" is paused`) || !strings.Contains(said, "--for 30m") {
		t.Errorf("got %q", said)
	}

	tab.Do(browsertest.Open(address+"queues"), follow("accounts"), browsertest.Visible(".tools"), follow("Purge"),
		browsertest.Type("#f-why", "a test"), submit("Show what it would do"), browsertest.Visible(".preview"))
	tab.Check("the preview of a purge")
	tab.Axe("the preview of a purge")
	tab.Shoot("flow-preview")
	worldtest.Want(t, "messages before the second click", worldtest.Queued(t, x.Store, "accounts"), 24)
	tab.Do(submit("Purge queue accounts: this can't be taken back"), done)
	worldtest.Want(t, "messages after it", worldtest.Queued(t, x.Store, "accounts"), 0)
	tab.Shoot("flow-purged")

	tab.Do(browsertest.Open(address+"do/poison/retry?queue=mails"), browsertest.Click("#f-all"), submit("Show what it would do"), browsertest.Visible(".preview"))
	tab.Shoot("flow-retry")
	left(poisonedMails - 2)
	tab.Do(submit("Retry poison"), done)
	worldtest.Eventually(t, func() error { // it is done behind the pages
		if n := len(x.Poisoned("mails")); n > 0 {
			return fmt.Errorf("%d mails are poison", n)
		}
		return nil
	})

	tab.Do(browsertest.Open(address + "audit"))
	said := tab.Text("table")
	for _, name := range []string{"poison retry", "poison edit", "processes cancel", "queues pause", "queues purge"} {
		if !strings.Contains(said, name) {
			t.Errorf("the audit log has no %s: %s", name, said)
		}
	}
	for _, complaint := range tab.Complaints() {
		t.Errorf("the browser complains: %s", complaint)
	}
}

// pending are the IDs of the messages that wait in a queue.
func pending(t *testing.T, x *site, queue string) (all []string) {
	t.Helper()
	body := x.want(t, 200, ask{path: "do/queues/peek?" + url.Values{"queue": {queue}}.Encode(), role: act.Viewer, header: program})
	for _, m := range regexp.MustCompile(`"id":"([^"]+)"`).FindAllStringSubmatch(body, -1) {
		all = append(all, m[1])
	}
	return all
}

// A person who has a keyboard alone pauses a queue. The focus is always seen.
func TestBrowserByKeys(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	tab, address := x.open(t, act.Admin)
	// to presses the tab key until what is wanted has the focus.
	to := func(want string) {
		t.Helper()
		for range 80 {
			tab.Do(browsertest.Press(kb.Tab))
			if browsertest.Eval[string](tab, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
				t.Errorf("nothing shows that %s has the focus", browsertest.Eval[string](tab, `document.activeElement.outerHTML.slice(0, 200)`))
			}
			if browsertest.Eval[bool](tab, fmt.Sprintf(`document.activeElement.matches(%q) || document.activeElement.textContent.trim() == %q`, selector(want), want)) {
				return
			}
		}
		t.Fatalf("no key leads to %q", want)
	}
	tab.Do(browsertest.Open(address))
	to("Skip to the content")
	tab.Do(browsertest.Press(kb.Enter))
	to("accounts")
	tab.Do(browsertest.Press(kb.Enter), browsertest.Visible(".tools"))
	to("Pause")
	tab.Do(browsertest.Press(kb.Enter), browsertest.Visible("form.act"))
	to("#f-why")
	tab.Do(browsertest.Press("no budget"))
	to("Pause queue accounts")
	tab.Do(browsertest.Press(kb.Enter), browsertest.Visible("p.good[role=status]"))
	x.want(t, 200, ask{path: "queues/accounts", role: act.Viewer}, "no budget")
	to("More")
	tab.Do(browsertest.Press(kb.Enter), browsertest.Visible(".menu section"))
	to("Locks")
	tab.Do(browsertest.Press(kb.Enter), browsertest.Visible(`nav a[href$="locks"][aria-current]`))
}

// selector is what matches an element; a text that is no selector matches nothing.
func selector(want string) string {
	if strings.HasPrefix(want, "#") {
		return want
	}
	return "#none"
}

// A page that is fetched again keeps what has the focus, how far it was scrolled, and what was opened.
func TestBrowserKeepsItsPlace(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	x := newTown(t)
	tab, address := x.open(t, act.Viewer)
	tab.Width(760)
	tab.Do(browsertest.Open(address))
	browsertest.Eval[bool](tab, `document.querySelector(".wide").scrollLeft = 40, window.scrollTo(0, 60), document.activeElement.blur(), window.old = document.querySelector(".now"), true`)
	tab.Do(browsertest.Until(`document.querySelector(".now") !== window.old`))
	if at := browsertest.Eval[[]float64](tab, `[document.querySelector(".wide").scrollLeft, window.scrollY]`); at[0] != 40 || at[1] != 60 {
		t.Errorf("got %v, want the place where the page was", at)
	}
	tab.Do(chromedp.Focus(chromedp.CSS("main a")))
	browsertest.Eval[bool](tab, `window.old = document.querySelector(".now"), window.was = document.activeElement.textContent, true`)
	tab.Do(browsertest.Until(`document.querySelector(".now") !== window.old`))
	if !browsertest.Eval[bool](tab, `document.activeElement.textContent === window.was && document.activeElement.matches("main a")`) {
		t.Error("what had the focus has lost it")
	}
}

// No column of a table is out of sight: on a phone each cell stands in the screen with the name of its column, and on a
// desk a wide table has a bar that is seen.
func TestBrowserShowsAllColumns(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	tab, address := x.open(t, act.Viewer)
	for _, page := range []string{"", "queues", "queues/accounts", "poison", "processes", "schedules", "audit", "programs"} {
		tab.Width(390)
		tab.Do(browsertest.Open(address + page))
		const out = `[...document.querySelectorAll("td")].filter((x) => x.offsetParent && x.textContent.trim()).filter((x) => {
			const at = x.getBoundingClientRect(), named = x.matches(".steps *, :first-child") || getComputedStyle(x, "::before").content.length > 3;
			return at.left < 0 || at.right > innerWidth || at.width < 1 || !named || x.scrollHeight > x.clientHeight + 3;
		}).map((x) => x.outerHTML)`
		if hidden := browsertest.Eval[[]string](tab, out); len(hidden) > 0 {
			t.Errorf("page %q: %d cells are out of sight, such as %s", page, len(hidden), hidden[0])
		}
	}
	tab.Width(760)
	tab.Do(browsertest.Open(address))
	const bar = `(() => { const x = document.querySelector(".wide"); return x.scrollWidth > x.clientWidth && getComputedStyle(x, "::-webkit-scrollbar").height != "auto"; })()`
	if !browsertest.Eval[bool](tab, bar) {
		t.Error("nothing shows that a wide table goes on")
	}
}

// The picture of the documentation can be made: the first page of a shop with some troubles, as a desk shows it.
// MILLRACE_PICTURE names the file to write; make screenshot gives it.
func TestPictureOfTheFirstPage(t *testing.T) {
	t.Parallel()
	const width, height, most = 1280, 900, 150_000
	x := newTown(t)
	tab, address := x.open(t, act.Admin)
	tab.Width(width)
	tab.Dark(false)
	tab.Do(browsertest.Open(address), browsertest.Visible(".finding"), browsertest.Visible("table"))
	made := tab.Picture(false)
	to := os.Getenv("MILLRACE_PICTURE")
	if to != "" {
		if err := os.WriteFile(to, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("../docs/ops.png")
	if err != nil {
		t.Fatal(err)
	}
	for what, picture := range map[string][]byte{"the picture that was made": made, "docs/ops.png": kept} {
		got, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got.Width != width || got.Height != height || len(picture) > most {
			t.Errorf("%s: got %d x %d pixels in %d bytes, want %d x %d in at most %d", what, got.Width, got.Height, len(picture), width, height, most)
		}
	}
}
