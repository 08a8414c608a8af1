package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// patience bounds the wait for an event that must come.
const patience = 60 * time.Second

// shared is the server of the tests that do nothing to a server.
var shared = sync.OnceValues(redistest.Launch)

// openStore opens a store that is closed with the test. With it comes the driver's own store.
func openStore(t *testing.T, url string) (*storage.Store, *store) {
	t.Helper()
	return openLogged(t, url, slog.New(slog.DiscardHandler))
}

func openLogged(t *testing.T, url string, log *slog.Logger) (*storage.Store, *store) {
	t.Helper()
	s, err := openURL(t.Context(), url, storage.OpenConfig{Logger: log})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, s.Driver().(*store)
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(patience)
	for !so() {
		select {
		case <-late:
			t.Fatalf("waited %v until %s", patience, what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// must fails the test after an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless an error is of a kind and says all of the fragments.
func wantError(t *testing.T, err, kind error, fragments ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want %v, saying %q", kind, fragments)
		return
	}
	if !errors.Is(err, kind) {
		t.Errorf("got %q, want an error that is %v", err, kind)
	}
	for _, x := range fragments {
		if !strings.Contains(err.Error(), x) {
			t.Errorf("got %q, want an error that says %q", err, x)
		}
	}
}

// A link is the path of a socket behind which the test puts one server and then another, as an address that a failover
// moves does.
type link string

func newLink(t *testing.T, to *redistest.Server) link {
	t.Helper()
	dir, err := os.MkdirTemp("", "link") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := link(filepath.Join(dir, "s"))
	l.point(t, to)
	return l
}

func (l link) point(t *testing.T, to *redistest.Server) {
	t.Helper()
	next := string(l) + "next"
	must(t, os.Symlink(to.Socket(), next))
	must(t, os.Rename(next, string(l)))
}

func (l link) url(prefix string) string { return "redis+unix://" + string(l) + "?prefix=" + prefix }

// awaitCopy waits until a replica has all that its master has.
func awaitCopy(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	until(t, "the replica has all", func() bool {
		return info(t, master)["master_repl_offset"] == info(t, replica)["slave_repl_offset"]
	})
}

func info(t *testing.T, s *redistest.Server) map[string]string {
	t.Helper()
	return readInfo(s.Do(t, "INFO", "everything"))
}

// A journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// awaitAnswer waits until a store answers. The first call on a broken connection may fail.
func awaitAnswer(t *testing.T, s *storage.Store) {
	t.Helper()
	until(t, "the store answers", func() bool {
		_, err := s.Blobs("docs").Get(t.Context(), "nothing", "")
		return errors.Is(err, storage.ErrNotFound)
	})
}

// texts makes messages.
func texts(bodies ...string) []storage.Message {
	m := make([]storage.Message, len(bodies))
	for i, b := range bodies {
		m[i].Body = []byte(b)
	}
	return m
}

// receiveOne receives the one message that is ready.
func receiveOne(t *testing.T, q *storage.Queue, visibility time.Duration) storage.Delivery {
	t.Helper()
	got, err := q.Receive(t.Context(), 10, visibility)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d messages, %v; want 1", len(got), err)
	}
	return got[0]
}

// drain receives and deletes all that comes until something is so, and returns the bodies.
func drain(ctx context.Context, q *storage.Queue, so func(got map[string]int) bool) (map[string]int, error) {
	got := map[string]int{}
	for !so(got) {
		if ctx.Err() != nil {
			return got, fmt.Errorf("got %d messages before %w", len(got), context.Cause(ctx))
		}
		list, err := q.Receive(ctx, 100, time.Minute)
		if err != nil {
			continue
		}
		var receipts []storage.Receipt
		for _, d := range list {
			got[string(d.Body)]++
			receipts = append(receipts, d.Receipt)
		}
		if len(receipts) > 0 {
			_ = q.Delete(ctx, receipts) // what stays comes again
		}
	}
	return got, nil
}
