// Package browsertest drives Chromium for tests of pages.
//
//	tab := browsertest.New(t)
//	tab.Do(browsertest.Open(url), chromedp.Click(chromedp.CSS("button")))
//	tab.Check(url)   // what no page may have, whatever it shows
//
// A tab waits for what it is told to wait for, and for no time: a test that has waited for longer than Patience has
// failed. Where there is no Chromium, the test is skipped, unless MILLRACE_REQUIRE (a list with commas) has chromium.
// axe-core finds what keeps people from using a page. Where axe-core is missing, the log says that pages were not
// checked by it; with axe in MILLRACE_REQUIRE the test fails. scripts/setup.sh installs both.
//
// MILLRACE_SHOTS names a folder that gets a picture of each page that a test has checked, and of each failure.
//
// The sample has a driver of its own, because people copy the sample with its tests.
//
// # Files
//
//	browsertest.go  a Tab, and what it does
//	check.go        what no page may have
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Patience bounds the wait for an event that must happen.
const Patience = 30 * time.Second

// An Action is a step of a test.
type Action = chromedp.Action[chromedp.Void]

// A Tab is a tab of a browser of its own. Both end with the test.
type Tab struct {
	t          testing.TB
	ctx        context.Context
	complaints chan string // what the browser has logged
}

// required reports that a test must not be skipped for want of a tool.
func required(tool string) bool {
	return slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), tool)
}

// chromium finds the browser.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if required("chromium") {
		t.Fatal("MILLRACE_REQUIRE has chromium, and there is none in PATH")
	}
	t.Skip("no Chromium in PATH: the pages are not tested in a browser")
	return ""
}

// New opens a tab.
func New(t testing.TB) *Tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(Patience),
		chromedp.WindowSize(1280, 900),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-sandbox", os.Geteuid() == 0), // root can't use Chromium's sandbox
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	opened, _ := chromedp.NewContext(ctx)
	if err := chromedp.Do(opened); err != nil { // starts the browser, which must outlive the timeout of a page
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(opened); err != nil { // waits, so that the profile's folder can be deleted
			t.Logf("browser: %v", err)
		}
	})
	tab := &Tab{t: t, ctx: opened, complaints: make(chan string, 1000)}
	tab.listen()
	return tab
}

// Do does steps.
func (b *Tab) Do(steps ...Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Shoot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		b.t.Fatal(err)
	}
}

// Ask returns what an action says.
func Ask[T any](b *Tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.Shoot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
		b.t.Fatal(err)
	}
	return v
}

// Eval returns the value of an expression.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	return Ask(b, chromedp.Evaluate[T](expression))
}

// Until waits until an expression is true.
func Until(expression string) Action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(Patience))(ctx, t)
		return err
	})
}

// Open opens a page.
func Open(address string) Action {
	return chromedp.Steps(chromedp.Navigate(address), Visible("main"))
}

// Visible waits for an element.
func Visible(selector string) Action { return chromedp.WaitVisible(chromedp.CSS(selector)) }

// Click clicks an element.
func Click(selector string) Action { return chromedp.Click(chromedp.CSS(selector)) }

// Type types into a field, in place of what is there.
func Type(selector, text string) Action {
	return chromedp.Steps(Visible(selector), chromedp.Focus(chromedp.CSS(selector)), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool]("document.activeElement.select(), true")(ctx, t)
		return err
	}), chromedp.KeyEvent(text))
}

// Press presses keys on what has the focus.
func Press(keys string) Action { return chromedp.KeyEvent(keys) }

// Text is the text of an element.
func (b *Tab) Text(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(Ask(b, chromedp.TextContent(chromedp.CSS(selector))))
}

// Width gives the screen a width.
func (b *Tab) Width(pixels int64) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(pixels, 900))
}

// Dark says whether the screen's owner wishes for dark pages or for light ones.
func (b *Tab) Dark(wished bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[wished]
	wish := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, wish); err != nil {
		b.t.Fatal(err)
	}
}

// Still keeps the next pages from changing by a clock: what a test is about to click stays where it is.
func (b *Tab) Still() {
	b.t.Helper()
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: "window.setInterval = () => 0"}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		b.t.Fatal(err)
	}
}

// Token sends a bearer token with each request.
func (b *Tab) Token(token string) {
	b.t.Helper()
	with := network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + token}}
	if _, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, with); err != nil {
		b.t.Fatal(err)
	}
}

// Picture is the page as PNG, from its top to its end, or only what the screen shows.
func (b *Tab) Picture(whole bool) []byte {
	b.t.Helper()
	if whole {
		return Ask(b, chromedp.FullScreenshot(100))
	}
	return Ask(b, chromedp.CaptureScreenshot())
}

// Shoot saves a picture of the page if MILLRACE_SHOTS names a folder.
func (b *Tab) Shoot(name string) {
	b.t.Helper()
	folder := os.Getenv("MILLRACE_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), Patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Logf("screenshot: %v", err)
	}
}
