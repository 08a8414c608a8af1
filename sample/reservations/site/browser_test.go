package site_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/device"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations/site"
)

// chromium finds the browser. Without one the test is skipped, unless MILLRACE_REQUIRE (a list with commas) demands
// it.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "chromium") {
		t.Fatal("MILLRACE_REQUIRE has chromium, and there is none in PATH")
	}
	t.Skip("no Chromium in PATH: the pages are not tested in a browser")
	return ""
}

// browse opens a browser tab that ends with the test.
func browse(t *testing.T) context.Context {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(patience),
		chromedp.WindowSize(1200, 900),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-sandbox", os.Geteuid() == 0), // root can't use Chromium's sandbox
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	tab, _ := chromedp.NewContext(ctx)
	if err := chromedp.Do(tab); err != nil { // starts the browser, which must outlive the timeout of a page
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil { // waits, so that the profile's folder can be deleted
			t.Logf("browser: %v", err)
		}
	})
	ctx, cancel = context.WithTimeout(tab, 2*patience)
	t.Cleanup(cancel)
	return ctx
}

type action = chromedp.Action[chromedp.Void]

func do(t *testing.T, ctx context.Context, actions ...action) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		shoot(t, ctx, "failed-"+t.Name())
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, ctx context.Context, a chromedp.Action[T]) T {
	t.Helper()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		shoot(t, ctx, "failed-"+t.Name())
		t.Fatal(err)
	}
	return v
}

// shoot saves a picture of the page if MILLRACE_SHOTS names a folder.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	folder := os.Getenv("MILLRACE_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)
	}
	if err != nil {
		t.Logf("screenshot: %v", err)
	}
}

func open(address string) action {
	return chromedp.Steps(chromedp.Navigate(address), visible("main"))
}

func visible(selector string) action { return chromedp.WaitVisible(chromedp.CSS(selector)) }

func click(selector string) action { return chromedp.Click(chromedp.CSS(selector)) }

// state waits for the receipt to show a state.
func state(s string) action { return visible(`#receipt[data-status="` + s + `"]`) }

// fill types into the form.
func fill(date, quantity, name, email string) action {
	return chromedp.Steps(
		visible("form.card"),
		chromedp.SetValue(chromedp.ID("date"), date), // the way to type a date depends on the locale
		chromedp.Clear(chromedp.ID("quantity")),
		chromedp.SendKeys(chromedp.ID("quantity"), quantity),
		chromedp.SendKeys(chromedp.ID("name"), name),
		chromedp.SendKeys(chromedp.ID("email"), email),
	)
}

func submit() action { return click("form.card button") }

func text(t *testing.T, ctx context.Context, selector string) string {
	t.Helper()
	return strings.TrimSpace(ask(t, ctx, chromedp.TextContent(chromedp.CSS(selector))))
}

func count(t *testing.T, ctx context.Context, selector string) int {
	t.Helper()
	return ask(t, ctx, chromedp.Evaluate[int](fmt.Sprintf("document.querySelectorAll(%q).length", selector)))
}

// TestBrowserBooksAndCancels books a table, sees the decision arrive without a reload, and cancels.
func TestBrowserBooksAndCancels(t *testing.T) { onEachStore(t, browserBooksAndCancels) }

func browserBooksAndCancels(t *testing.T, s *stack) {
	ctx := browse(t)
	day := in(3)
	do(t, ctx, open(s.url+"/?month="+day[:7]))
	shoot(t, ctx, "calendar")
	do(t, ctx, click(`a[data-date="`+day+`"]`), visible("form.card"))
	shoot(t, ctx, "form")
	do(t, ctx, fill(day, "4", "Ada Lovelace", "ada@example.org"), submit(), state("pending"))
	ask(t, ctx, chromedp.Evaluate[bool]("window.sameDocument = true"))
	shoot(t, ctx, "pending")

	s.work()
	do(t, ctx, state("accepted"))
	shoot(t, ctx, "accepted")
	for _, selector := range []string{"#receipt h1", "#said"} { // the visible text, and the one for screen readers
		if got, want := text(t, ctx, selector), "Your table is booked"; got != want {
			t.Errorf("%s: got %q, want %q", selector, got, want)
		}
	}
	if !ask(t, ctx, chromedp.Evaluate[bool]("window.sameDocument === true")) {
		t.Error("the page was loaded again; want it updated")
	}

	do(t, ctx, click("summary"), visible("button.danger"))
	shoot(t, ctx, "cancel")
	do(t, ctx, click("button.danger"), state("cancelled"))
	shoot(t, ctx, "cancelled")
	if address := ask(t, ctx, chromedp.Location()); strings.HasSuffix(address, "/cancel") {
		t.Errorf("address: got %s, want one that can be loaded again", address)
	}
	do(t, ctx, chromedp.Reload(), state("cancelled"))
}

// TestBrowserSellsOut sells a day out and sees it disabled.
func TestBrowserSellsOut(t *testing.T) { onEachStore(t, browserSellsOut) }

func browserSellsOut(t *testing.T, s *stack) {
	ctx := browse(t)
	s.work()
	day := in(4)
	book := chromedp.Steps(open(s.url+"/reservations/new?date="+day), fill(day, "20", "Ada", "ada@example.org"), submit())
	do(t, ctx, book, state("accepted"), book, state("accepted"))

	eventually(t, "the day is sold out in the calendar", func() bool {
		do(t, ctx, open(s.url+"/?month="+day[:7]))
		return count(t, ctx, `.soldout[data-date="`+day+`"]`) == 1
	})
	if count(t, ctx, `a[data-date="`+day+`"]`) != 0 {
		t.Error("the day that is sold out can be chosen")
	}
	shoot(t, ctx, "calendar-soldout")
	do(t, ctx, book, state("rejected"))
	shoot(t, ctx, "rejected")
	if got, want := text(t, ctx, "#receipt .lead"), "We are fully booked that day."; !strings.HasPrefix(got, want) {
		t.Errorf("reason: got %q, want %q", got, want)
	}
}

// TestBrowserFaults submits bad input. The faults are beside the fields, and the typed text is kept.
func TestBrowserFaults(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{})
	do(t, ctx, open(s.url+"/reservations/new?date="+in(3)), fill(in(3), "lots", "Ada Lovelace", "ada"), submit(), visible("#wrong"))
	shoot(t, ctx, "faults")
	for field, want := range map[string]string{
		"quantity": "Choose 1 to 20 seats.",
		"email":    "Write an e-mail address, for example ada@example.org.",
	} {
		if got := text(t, ctx, "#"+field+"-fault"); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
		described := ask(t, ctx, chromedp.Evaluate[string](fmt.Sprintf("document.getElementById(%q).ariaDescribedByElements[1].id", field)))
		if want := field + "-fault"; described != want {
			t.Errorf("%s is described by %q, want %q", field, described, want)
		}
	}
	for field, want := range map[string]string{"name": "Ada Lovelace", "email": "ada", "quantity": "lots", "date": in(3)} {
		if got := ask(t, ctx, chromedp.Value(chromedp.ID(field))); got != want {
			t.Errorf("%s: got %q, want what was typed, %q", field, got, want)
		}
	}
	do(t, ctx, // the corrected form goes through
		chromedp.SetValue(chromedp.ID("quantity"), "2"), chromedp.SetValue(chromedp.ID("email"), "ada@example.org"),
		submit(), state("pending"))
}

// TestBrowserOnAPhone visits every page on a narrow screen, in dark mode, without JavaScript. Nothing may be wider
// than the screen, and a booking must work by plain page loads.
func TestBrowserOnAPhone(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{})
	day := in(3)
	do(t, ctx, phone())
	dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	fits := func(page string) {
		t.Helper()
		if wide := ask(t, ctx, chromedp.Evaluate[float64]("document.documentElement.scrollWidth - 390")); wide > 0 {
			t.Errorf("%s is %v pixels wider than the screen", page, wide)
		}
		shoot(t, ctx, "phone-"+page)
	}
	do(t, ctx, open(s.url+"/?month="+day[:7]))
	fits("calendar")
	do(t, ctx, open(s.url+"/nothing"))
	fits("message")
	do(t, ctx, open(s.url+"/reservations/new?date="+day), submit(), visible("#wrong"))
	fits("faults")
	do(t, ctx, fill(day, "2", strings.Repeat("W", 100), "ada@example.org"), submit(), state("pending"))
	fits("pending")
	s.work()
	do(t, ctx, state("accepted")) // by the page's own refresh
	fits("accepted")
}

// TestBrowserFollowsThePolicy checks that no page needs anything that the site's Content-Security-Policy forbids, and
// that the browser reports no other error.
func TestBrowserFollowsThePolicy(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{})
	id := channel.NewID()
	s.postJSON(body(id, in(3), 2)).want(t, http.StatusAccepted)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	messages := chromedp.Console(listening)
	for _, path := range []string{"/", "/reservations/new?date=" + in(3), "/reservations/" + id} {
		do(t, ctx, open(s.url+path))
	}
	s.work()
	do(t, ctx, state("accepted"))
	ask(t, ctx, chromedp.Evaluate[int](`console.log("the end"), 0`))
	for m, err := range messages {
		if err != nil {
			t.Fatal(err)
		}
		if m.Text == "the end" {
			break
		}
		t.Errorf("the browser complains: %v", m)
	}
}

// TestBrowserShowsTheNumber sees the number of a reservation on its receipt, wide and narrow, and finds the reservation
// by it.
func TestBrowserShowsTheNumber(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{})
	s.work()
	do(t, ctx, open(s.url+"/reservations/new?date="+in(3)), fill(in(3), "2", "Ada Lovelace", "ada@example.org"), submit(), state("accepted"))
	number := text(t, ctx, ".ticket strong")
	shoot(t, ctx, "number")
	find := func(number string) action {
		return chromedp.Steps(visible("#number"), chromedp.SetValue(chromedp.ID("number"), number), click("form.card button"))
	}
	do(t, ctx, click("footer a"), find(number+"x"), visible("#number-fault"))
	shoot(t, ctx, "number-fault")
	do(t, ctx, find(number), visible(`article[data-status="accepted"]`))
	shoot(t, ctx, "number-found")
	if got := text(t, ctx, ".ticket strong"); got != number {
		t.Errorf("got No. %s, want %s", got, number)
	}
	do(t, ctx, phone())
	shoot(t, ctx, "phone-number-found")
}

// TestBrowserBeforeTheSeason sees the pages before the bookings of a season open, wide and narrow.
func TestBrowserBeforeTheSeason(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s, _ := newSeason(t, filepath.Join(t.TempDir(), "test.db"), time.Now().Add(48*time.Hour))
	eventually(t, "the opening is announced", func() bool {
		return s.postJSON(body(channel.NewID(), in(3), 2)).Header.Get("Retry-After") != ""
	})
	pages := func(size string) {
		do(t, ctx, open(s.url+"/?month="+in(3)[:7]), visible("#season"))
		shoot(t, ctx, size+"season-calendar")
		do(t, ctx, open(s.url+"/reservations/new?date="+in(3)), visible(".notice"))
		shoot(t, ctx, size+"season-form")
		do(t, ctx, open(s.url+"/reservations/new"), fill(in(3), "2", "Ada Lovelace", "ada@example.org"), submit(), visible(".notice"))
		shoot(t, ctx, size+"season-refused")
		if got := ask(t, ctx, chromedp.Value(chromedp.ID("name"))); got != "Ada Lovelace" {
			t.Errorf("the name: got %q, want what was typed", got)
		}
	}
	pages("")
	do(t, ctx, phone())
	pages("phone-")
}

// TestBrowserAsksTooOften sees a refusal in words, with all that was typed, wide and narrow. The same form,
// corrected, is then accepted.
func TestBrowserAsksTooOften(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{PerAddress: 60, PerMail: 1, Proxies: 1}, from("192.0.2.7"))
	book := func(mail string) action {
		return chromedp.Steps(open(s.url+"/reservations/new?date="+in(3)), fill(in(3), "2", "Ada Lovelace", mail), submit())
	}
	do(t, ctx, book("ada@example.org"), state("pending"), book("Ada@example.org"), visible(".notice"))
	shoot(t, ctx, "too-often")
	if got, want := text(t, ctx, ".notice"), "There have been many reservations with this e-mail address. Please try again in "; !strings.HasPrefix(got, want) {
		t.Errorf("the refusal: got %q, want %q", got, want)
	}
	for field, want := range map[string]string{"name": "Ada Lovelace", "email": "Ada@example.org", "quantity": "2", "date": in(3)} {
		if got := ask(t, ctx, chromedp.Value(chromedp.ID(field))); got != want {
			t.Errorf("%s: got %q, want what was typed, %q", field, got, want)
		}
	}
	do(t, ctx, phone())
	shoot(t, ctx, "phone-too-often")
	do(t, ctx, chromedp.SetValue(chromedp.ID("email"), "bob@example.org"), submit(), state("pending"))
}

// phone makes the screen that of a phone.
func phone() action {
	return chromedp.Emulate(device.Info{Name: "phone", Width: 390, Height: 844, Scale: 2, Mobile: true, Touch: true})
}
