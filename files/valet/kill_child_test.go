//go:build unix

package valet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// The environment of a child: which one it is, and its store's URL. It works in the folder of its test, where these
// files are.
const (
	childVar = "MILLRACE_VALET_CHILD"
	storeVar = "MILLRACE_VALET_STORE"

	keyFile = "key.json" // the key of the upload
	webFile = "web"      // the address of the web
)

// hidden is how long the messages of a killed worker are hidden from the next one.
const hidden = 2 * time.Second

// TestMain runs the test binary as another process when a test has started it as one.
func TestMain(m *testing.M) {
	run, ok := map[string]func(context.Context) error{"client": runClient, "web": runWeb, "worker": runWorker}[os.Getenv(childVar)]
	if !ok {
		os.Exit(m.Run())
	}
	go endWithParent(os.Getppid())
	if err := run(context.Background()); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// endWithParent ends this process when its test has been killed.
func endWithParent(parent int) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for os.Getppid() == parent {
		<-look.C
	}
	os.Exit(1)
}

// openWorld opens a store and its channels. Idle processes ask Azurite often.
func openWorld(ctx context.Context, url string) (*storage.Store, *channel.Channels, error) {
	s, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, url, storage.OpenConfig{})
	if err != nil {
		return nil, nil, err
	}
	if s.Props().PollInterval > time.Second {
		s = storagetest.WithProps(s, func(p *storage.Props) { p.PollInterval = 300 * time.Millisecond })
	}
	r, err := routes()
	if err != nil {
		return nil, nil, err
	}
	c, err := channel.New(s, r, "/test")
	return s, c, err
}

// A teller is the document of what a subscriber was told of a file. A message that comes again doesn't change it, but
// an event that is emitted twice does.
type teller struct {
	Events []string `json:"events"`
}

func tellers(c *channel.Channels) *values.Collection[teller] {
	return values.New(c, "told", values.Config[teller]{})
}

// runWorker is a worker until it is killed. It prints a line when its scanner begins.
func runWorker(ctx context.Context) error {
	_, c, err := openWorld(ctx, os.Getenv(storeVar))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	v, err := valet.New(c, valet.Config{Rules: rules(), Logger: log, Scan: func(_ context.Context, f valet.File, content io.Reader) (valet.Verdict, error) {
		fmt.Println("scan")
		if n, err := io.Copy(io.Discard, content); err != nil || n != f.Size {
			return valet.Verdict{}, fmt.Errorf("the scanner got %d bytes: %w", n, err)
		}
		return valet.Pass(), nil
	}})
	if err != nil {
		return err
	}
	h := handlers.NewRegistry(c, handlers.Config{Logger: log})
	v.Register(h)
	handlers.On(h, "told", tellers(c), func(e valet.Uploaded) string { return e.ID }, func(t teller, e valet.Uploaded) (teller, []channel.Message, error) {
		t.Events = append(t.Events, "uploaded "+e.SHA256)
		return t, nil, nil
	})
	handlers.On(h, "told", tellers(c), func(e valet.Rejected) string { return e.ID }, func(t teller, e valet.Rejected) (teller, []channel.Message, error) {
		t.Events = append(t.Events, string(e.State)+" "+e.Reason)
		return t, nil, nil
	})
	w, err := worker.New(h, worker.Config{Visibility: hidden, Logger: log})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// runWeb serves keys until it is killed. Its address is in a file.
func runWeb(ctx context.Context) error {
	_, c, err := openWorld(ctx, os.Getenv(storeVar))
	if err != nil {
		return err
	}
	v, err := valet.New(c, valet.Config{Rules: rules(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(webFile+".new", []byte("http://"+l.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(webFile+".new", webFile); err != nil {
		return err
	}
	fmt.Println("ready")
	mux := http.NewServeMux()
	mux.Handle("/files/", v)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

// runClient uploads the file whose key is in its folder, and ends when the file is clean. It knows nothing of clients
// before it: it asks which parts are there.
func runClient(ctx context.Context) error {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	var key valet.Key
	if err := json.Unmarshal(text, &key); err != nil {
		return err
	}
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		s, err := clientStep(ctx, key)
		switch {
		case err != nil:
			fmt.Println("again:", err)
		case s.State == valet.StateClean:
			fmt.Println("clean")
			return nil
		case s.State != valet.StateGranted && s.State != valet.StateArrived:
			return fmt.Errorf("the file is %s: %s", s.State, s.Reason)
		}
		<-pause.C
	}
}

// clientStep does all that a client can do without waiting.
func clientStep(ctx context.Context, key valet.Key) (s valet.Status, err error) {
	if err = say(ctx, http.MethodGet, key.URL, nil, http.StatusOK, &s); err != nil || s.State != valet.StateGranted {
		return s, err
	}
	missing := lacking(s)
	for len(missing) > 0 {
		some := missing[:min(16, len(missing))]
		missing = missing[len(some):]
		var keys valet.PartKeys
		list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(some)), ","), "[]")
		if err := say(ctx, http.MethodPost, key.URL+"/parts?n="+list, nil, http.StatusOK, &keys); err != nil {
			return s, err
		}
		if err := putAll(ctx, keys.Parts, min(4, max(1, s.Parts/4))); err != nil {
			return s, err
		}
	}
	return s, say(ctx, http.MethodPost, key.URL+"/complete", nil, 0, nil)
}

// lacking are the parts that a status doesn't have.
func lacking(s valet.Status) (missing []int) {
	have := map[int]bool{}
	for piece := range strings.SplitSeq(s.Have, ",") {
		var from, to int
		if n, _ := fmt.Sscanf(piece, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for i := from; i <= to; i++ {
			have[i] = true
		}
	}
	for i := 1; i <= s.Parts; i++ {
		if !have[i] {
			missing = append(missing, i)
		}
	}
	return missing
}

// putAll puts parts, so many at a time.
func putAll(ctx context.Context, parts []valet.PartKey, atOnce int) error {
	todo, failed := make(chan valet.PartKey), make([]error, atOnce)
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for p := range todo {
				if failed[i] == nil {
					failed[i] = say(ctx, http.MethodPut, p.URL, partOf(p.Number, p.Size), http.StatusCreated, nil)
				}
			}
		})
	}
	for _, p := range parts {
		todo <- p
	}
	close(todo)
	all.Wait()
	return errors.Join(failed...)
}

// say makes a request. Its errors have no URL, since that is a key. want 0 takes any answer of the web.
func say(ctx context.Context, method, to string, body []byte, want int, answer any) error {
	if strings.HasPrefix(to, "/") {
		web, err := os.ReadFile(webFile)
		if err != nil {
			return err
		}
		to = string(web) + to
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL can't be read")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case want != 0 && res.StatusCode != want:
		return fmt.Errorf("%s: the answer is %d", method, res.StatusCode)
	case answer != nil:
		return json.Unmarshal(text, answer)
	}
	return nil
}

// partOf is the content of a part.
func partOf(number int, size int64) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(number), byte(number >> 8), 1}).Read(b) // it never fails
	return b
}

// sumOfParts is the digest of a file.
func sumOfParts(size, partSize int64) string {
	hash := sha256.New()
	for n := 1; size > 0; n++ {
		b := partOf(n, min(size, partSize))
		_, _ = hash.Write(b) // it never fails
		size -= int64(len(b))
	}
	return hex.EncodeToString(hash.Sum(nil))
}
