package browsertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// fence is what the browser logs when a test asks what it has logged until then.
const fence = "browsertest: until here"

// listen keeps what the browser complains of: errors of scripts, and what a page's policy forbids.
func (b *Tab) listen() {
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return // the tab has ended
			}
			if strings.HasPrefix(m.Text, "Failed to load resource: the server responded with a status of 4") && !isFile(m.URL) {
				continue // the page itself is a refusal
			}
			select {
			case b.complaints <- m.Text:
			case <-b.ctx.Done():
				return
			}
		}
	}()
}

// isFile reports an address that is a file of a page, and not a page.
func isFile(address string) bool {
	at, err := url.Parse(address)
	return err != nil || path.Ext(at.Path) != ""
}

// Complaints are what the browser has complained of since the last call.
func (b *Tab) Complaints() (all []string) {
	b.t.Helper()
	Eval[int](b, fmt.Sprintf("console.log(%q), 0", fence))
	late := time.After(Patience)
	for {
		select {
		case said := <-b.complaints:
			if said == fence {
				return all
			}
			all = append(all, said)
		case <-late:
			b.t.Fatal("the browser doesn't say what it has logged")
		}
	}
}

// Check tests what no page may have: complaints of the browser, a part that is wider than the screen, and no heading.
func (b *Tab) Check(page string) {
	b.t.Helper()
	for _, said := range b.Complaints() {
		b.t.Errorf("%s: the browser complains: %s", page, said)
	}
	b.Fits(page)
	if Eval[int](b, `document.querySelectorAll("main h1").length`) != 1 {
		b.t.Errorf("%s: want one heading in main", page)
	}
}

// Fits tests that nothing makes the page wider than the screen.
func (b *Tab) Fits(page string) {
	b.t.Helper()
	const widest = `(() => {
		const screen = document.documentElement.clientWidth, over = document.documentElement.scrollWidth - screen;
		if (over <= 0) return "";
		const wide = [...document.querySelectorAll("body *")].filter((x) => x.getBoundingClientRect().right > screen);
		return over + " pixels: " + wide.slice(-1).map((x) => x.outerHTML.slice(0, 200));
	})()`
	if wide := Eval[string](b, widest); wide != "" {
		b.t.Errorf("%s is wider than the screen by %s", page, wide)
	}
}

// Axe tests that axe-core finds nothing serious on the page. rules are the names of rules, where not all are wanted. A
// test goes on where axe-core is missing, because most of its flow needs no axe-core; the log says so.
func (b *Tab) Axe(page string, rules ...string) {
	b.t.Helper()
	source, err := axe()
	if err != nil && required("axe") {
		b.t.Fatalf("MILLRACE_REQUIRE has axe: %v", err)
	} else if err != nil {
		b.t.Logf("%s is not checked by axe-core, which scripts/setup.sh installs: %v", page, err)
		return
	}
	if !Eval[bool](b, "!!window.axe") {
		Eval[bool](b, source+"; !!window.axe")
	}
	only := ""
	if len(rules) > 0 {
		names, err := json.Marshal(rules)
		if err != nil {
			b.t.Fatal(err)
		}
		only = ", runOnly: " + string(names)
	}
	run := `axe.run({ resultTypes: ["violations"], preload: false` + only + ` }).then((r) => r.violations
		.filter((x) => x.impact == "serious" || x.impact == "critical")
		.map((x) => x.id + ": " + x.help + ": " + x.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join("\n  ")))`
	for _, found := range Ask(b, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise)) {
		b.t.Errorf("%s: %s", page, found)
	}
}

// axe reads axe-core, which scripts/setup.sh installs.
func axe() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil || dir == filepath.Dir(dir) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(dir, "scripts", "axe", "node_modules", "axe-core", "axe.min.js"))
	return strings.TrimRight(string(source), ";\n"), err
}
