package site_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	encoder "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
)

// picture makes a file with a picture, and junk behind it, of a size or more.
func picture(t *testing.T, name string, size int) string {
	t.Helper()
	cake := image.NewRGBA(image.Rect(0, 0, 640, 400))
	for y := range 400 {
		for x := range 640 {
			cake.Set(x, y, color.RGBA{R: uint8(x * 255 / 640), G: uint8(120 + y/4), B: 90, A: 255})
		}
	}
	var b bytes.Buffer
	if err := encoder.Encode(&b, cake); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, append(b.Bytes(), make([]byte, max(0, size-b.Len()))...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// choose chooses a file on a receipt.
func choose(file string) action {
	return chromedp.Steps(visible("#wish"), chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}))
}

// says waits until the line of the wish, which screen readers read, begins with a text.
func says(text string) action {
	return until(`document.getElementById("wish-said")?.textContent.startsWith(` + jsText(text) + `)`)
}

func jsText(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func until(expression string) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience))(ctx, t)
		return err
	})
}

// kitchen opens the restaurant's page of a date.
func (s *stack) kitchen(date string) action {
	return open(strings.Replace(s.url, "http://", "http://kitchen:"+kitchenKey+"@", 1) + "/evenings/" + date)
}

// accessible checks the page with axe-core where it is installed, and that nothing is wider than the screen.
func accessible(t *testing.T, ctx context.Context, page string) {
	t.Helper()
	if wide := ask(t, ctx, chromedp.Evaluate[float64]("document.documentElement.scrollWidth - document.documentElement.clientWidth")); wide > 0 {
		t.Errorf("%s is %v pixels wider than the screen", page, wide)
	}
	axe, err := os.ReadFile(filepath.Join("..", "..", "..", "scripts", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Logf("%s is not checked by axe-core: %v", page, err)
		return
	}
	if !ask(t, ctx, chromedp.Evaluate[bool]("!!window.axe")) {
		ask(t, ctx, chromedp.Evaluate[bool](strings.TrimRight(string(axe), ";\n")+"; !!window.axe"))
	}
	const run = `axe.run({ resultTypes: ["violations"], preload: false }).then((r) => r.violations
		.map((x) => x.id + ": " + x.help + ": " + x.nodes.map((n) => n.html.slice(0, 200)).join("\n  ")))`
	for _, found := range ask(t, ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise)) {
		t.Errorf("%s: %s", page, found)
	}
}

// A guest adds a picture by keyboard, and the kitchen sees it, wide and narrow, without a complaint of the browser.
func TestBrowserAddsAWish(t *testing.T) { onEachStore(t, browserAddsAWish) }

func browserAddsAWish(t *testing.T, s *stack) {
	ctx := browse(t)
	s.work()
	if _, err := s.files.Origins(t.Context(), []string{s.url}); err != nil && !errors.Is(err, storage.ErrUnsupported) {
		t.Fatal(err)
	}
	id, file := s.booked(in(3)), picture(t, "cake.png", 0)
	listening, stop := context.WithCancel(ctx)
	defer stop()
	messages := chromedp.Console(listening)
	do(t, ctx, chromedp.EmulateViewport(1280, 900), open(s.url+"/reservations/"+id), visible("#wish"))
	accessible(t, ctx, "the receipt")
	shoot(t, ctx, "wish-form")
	do(t, ctx, choose(file), chromedp.Focus(chromedp.CSS("#wish button")), chromedp.KeyEvent("\r"), says("The kitchen has your wish: cake.png."))
	shoot(t, ctx, "wish-there")
	eventually(t, "the receipt has the wish", func() bool {
		return strings.Contains(s.get("/reservations/"+id, "Accept", "text/html").body, "cake.png")
	})
	do(t, ctx, chromedp.EmulateViewport(400, 900), open(s.url+"/reservations/"+id), visible("#wish"))
	accessible(t, ctx, "the receipt, narrow")
	shoot(t, ctx, "wish-there-narrow")

	for size, width := range map[string]int64{"": 1280, "-narrow": 400} {
		do(t, ctx, chromedp.EmulateViewport(width, 900), s.kitchen(in(3)), until(`document.querySelector(".guests img")?.naturalWidth === 640`))
		accessible(t, ctx, "the evening"+size)
		shoot(t, ctx, "evening"+size)
	}
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

// The guest learns why a file isn't accepted: by the site before it is sent, or by the check.
func TestBrowserAddsWhatIsNoWish(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	s := newStack(t, site.Config{})
	s.work()
	id := s.booked(in(3))
	page := filepath.Join(t.TempDir(), "page.png")
	if err := os.WriteFile(page, []byte("<!DOCTYPE html><script>alert(1)</script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := picture(t, "large.png", 10<<20+1)
	do(t, ctx, open(s.url+"/reservations/"+id), choose(page), click("#wish button"), says("page.png was not accepted: the content is text/html"))
	shoot(t, ctx, "wish-rejected")
	do(t, ctx, choose(large), click("#wish button"), says("The file is too large: at most 10 MB. You can send the file again."))
	eventually(t, "the receipt tells why", func() bool {
		do(t, ctx, open(s.url+"/reservations/"+id), visible("#wish"))
		return count(t, ctx, ".wish form") == 1 && strings.Contains(text(t, ctx, ".wish"), "Your last file was not accepted: the content is text/html")
	})
	accessible(t, ctx, "the receipt")
}

// A page that is loaded again in the middle of an upload goes on with the same key, once the guest has chosen the file
// again. The same file for another reservation gets a key of its own.
func TestBrowserGoesOnWithAWish(t *testing.T) {
	t.Parallel()
	ctx := browse(t)
	var keys, puts atomic.Int64
	var stuck atomic.Bool
	stuck.Store(true)
	s := newStack(t, site.Config{KitchenKey: kitchenKey}, func(server *httptest.Server) {
		next := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/wish"):
				keys.Add(1)
			case r.Method == http.MethodPut && r.ContentLength < 8<<20 && stuck.Load():
				panic(http.ErrAbortHandler) // the second part doesn't get through
			case r.Method == http.MethodPut:
				puts.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	s.work()
	id, other, file := s.booked(in(3)), s.booked(in(4)), picture(t, "cake.png", 9<<20)
	do(t, ctx, open(s.url+"/reservations/"+id), choose(file), click("#wish button"), until(`document.querySelector("#wish progress").value > 0.5`))
	shoot(t, ctx, "wish-half")
	do(t, ctx, open(s.url+"/reservations/"+other)) // ends the script of the page before
	stuck.Store(false)
	do(t, ctx, choose(file), click("#wish button"), says("The kitchen has your wish: cake.png."))
	if keys.Load() != 2 || puts.Load() != 3 {
		t.Errorf("the other reservation: got %d keys and %d parts, want 2 and 3", keys.Load(), puts.Load())
	}
	do(t, ctx, open(s.url+"/reservations/"+id), choose(file), click("#wish button"), says("The kitchen has your wish: cake.png."))
	if keys.Load() != 2 || puts.Load() != 4 {
		t.Errorf("after the page was loaded again: got %d keys and %d parts, want 2 and 4: the first part was there", keys.Load(), puts.Load())
	}
	for _, date := range []string{in(3), in(4)} {
		eventually(t, "the kitchen sees the wish", func() bool { return s.evening(date).Guests[0].Wish != "" })
	}
}
