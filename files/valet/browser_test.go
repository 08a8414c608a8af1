package valet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/browsertest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/worker"
)

var azurite = sync.OnceValues(azuretest.Launch)

// uploadPage uploads a file of 20 MB that the page makes, so in three parts.
const uploadPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Upload</title><link rel="icon" href="data:,"></head>
<body><main><h1>Upload</h1><progress max="1" value="0" aria-label="Upload"></progress><p id="state">none</p></main>
<script type="module">
import {upload, remembered, digest} from "/files/upload.js"
const bytes = new Uint8Array(20 << 20)
for (let i = 0; i < bytes.length; i += 4096) bytes[i] = i >> 12
const file = new File([bytes], "wish.bin", {lastModified: 1})
window.begin = async () => {
	window.again = remembered(file) !== undefined
	const key = remembered(file) ?? (await (await fetch("/key?sum=" + await digest(file), {method: "POST"})).json()).url
	try {
		const status = await upload(key, file, {progress: (done, all) => document.querySelector("progress").value = done / all})
		document.querySelector("#state").textContent = status.state + " " + status.reason
	} catch (e) { document.querySelector("#state").textContent = "error: " + e.message }
}
window.ready = true
</script></body></html>`

// A site has a page that uploads, and can be cut off.
type site struct {
	url  string
	v    *valet.Valet
	keys atomic.Int64
	puts atomic.Int64 // parts that went through the program
	cut  atomic.Int64 // so many requests are let through until nothing is any more; negative: all are
	was  atomic.Bool  // something was cut off
}

// passes reports whether a request is let through.
func (x *site) passes() bool {
	for {
		n := x.cut.Load()
		switch {
		case n < 0:
			return true
		case n == 0:
			x.was.Store(true)
			return false
		case x.cut.CompareAndSwap(n, n-1):
			return true
		}
	}
}

func newSite(t *testing.T, s *storage.Store) *site {
	t.Helper()
	w := worldtest.NewBare(t, s, handlers.Config{}, valet.Route(), channel.Event[valet.Uploaded](), channel.Event[valet.Rejected]())
	x := &site{}
	x.cut.Store(-1)
	var err error
	if x.v, err = valet.New(w.Channels, valet.Config{Rules: rules()}); err != nil {
		t.Fatal(err)
	}
	x.v.Register(w.Registry)
	w.Start(worker.Config{})
	sources, err := x.v.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/files/", x.v)
	mux.HandleFunc("POST /key", func(w http.ResponseWriter, r *http.Request) {
		x.keys.Add(1)
		key, err := x.v.Upload(r.Context(), valet.Upload{Rule: "any", Owner: "ada", Name: "wish.bin", Type: "application/octet-stream", Size: 20 << 20, SHA256: r.FormValue("sum")})
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(key)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self' "+strings.Join(sources, " "))
		_, _ = fmt.Fprint(w, uploadPage)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && r.URL.Path != "/files/upload.js" && !x.passes() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		if r.Method == http.MethodPut {
			x.puts.Add(1)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	x.url = server.URL
	return x
}

// A browser uploads a file in parts. It goes on after the network was cut, and after the page was loaded again.
func TestBrowserUploads(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	b := browsertest.New(t)
	b.Do(browsertest.Open(x.url), browsertest.Until("window.ready"))
	b.Check("upload")
	browsertest.Eval[bool](b, "begin(), true")
	b.Do(browsertest.Until(`document.querySelector("#state").textContent.startsWith("clean")`))
	if got := browsertest.Eval[float64](b, `document.querySelector("progress").value`); got != 1 || x.puts.Load() != 3 {
		t.Errorf("progress %v, %d parts", got, x.puts.Load())
	}

	x.cut.Store(3) // the key, the state, URLs for two parts
	browsertest.Eval[bool](b, "begin(), true")
	worldtest.Eventually(t, func() error {
		if !x.was.Load() {
			return errors.New("nothing was cut yet")
		}
		return nil
	})
	b.Do(browsertest.Open(x.url), browsertest.Until("window.ready")) // while it is cut off
	x.cut.Store(-1)
	browsertest.Eval[bool](b, "begin(), true")
	b.Do(browsertest.Until(`document.querySelector("#state").textContent.startsWith("clean")`))
	if again := browsertest.Eval[bool](b, "window.again"); !again || x.keys.Load() != 2 {
		t.Errorf("again: %v, with %d keys", again, x.keys.Load())
	}
	b.Complaints() // of what was cut
}

// A browser uploads to Azure Storage itself: no byte of the file goes through the program.
func TestBrowserUploadsToTheAccount(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	x := newSite(t, s)
	now, err := x.v.Origins(t.Context(), []string{x.url})
	if err != nil || fmt.Sprint(now) != fmt.Sprint([]string{x.url}) {
		t.Fatal(now, err)
	}
	b := browsertest.New(t)
	b.Do(browsertest.Open(x.url), browsertest.Until("window.ready"))
	browsertest.Eval[bool](b, "begin(), true")
	b.Do(browsertest.Until(`!document.querySelector("#state").textContent.startsWith("none")`))
	if got := b.Text("#state"); !strings.HasPrefix(got, "clean") || x.puts.Load() != 0 {
		t.Errorf("the page says %q, and %d parts went through the program", got, x.puts.Load())
	}
	b.Check("uploaded")
}
