package valet_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/internal/browsertest"
)

// A key that the script remembers is for one file at one place: the same file for something else has a key of its own.
func TestScriptRemembersByPlace(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /upload.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(valet.Script)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><main>a page</main>"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	tab := browsertest.New(t)
	tab.Do(browsertest.Open(server.URL))
	const cutOff = `(async () => {
		const {upload, remembered} = await import("/upload.js");
		const file = new File(["x"], "a.png", {lastModified: 1});
		await upload("/key-of-a", file, {place: "a", signal: AbortSignal.abort()}).catch(() => {});
		await upload("/key-of-none", file, {signal: AbortSignal.abort()}).catch(() => {});
		return [remembered(file, "a"), remembered(file, "b") ?? "none", remembered(file)].join();
	})()`
	if got, want := browsertest.Ask(tab, chromedp.Evaluate[string](cutOff, chromedp.EvalAwaitPromise)), "/key-of-a,none,/key-of-none"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
