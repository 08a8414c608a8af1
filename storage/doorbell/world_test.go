package doorbell

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_DOORBELL_CHILD"); path != "" {
		os.Exit(child(path))
	}
	if url := os.Getenv("MILLRACE_DOORBELL_HEARER"); url != "" {
		os.Exit(subscriber(url))
	}
	os.Exit(m.Run())
}

// quick is a pace that may read the table every millisecond.
func quick() pace {
	p := usualPace()
	p.readEvery, p.readSoon = time.Millisecond, time.Millisecond
	return p
}

func loopback() Config { return Config{Listen: "127.0.0.1:0"} }

// plain opens a file as a store with no optional abilities.
func plain(t *testing.T, path string) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	return storagetest.Plain(s)
}

// put puts a doorbell over a store, until the end of the test.
func put(t *testing.T, inner *storage.Store, cfg Config, p pace) *Doorbell {
	t.Helper()
	s, err := over(inner, cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// two opens two stores like those of two processes.
func two(t *testing.T) (a, b *Doorbell) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	return put(t, plain(t, path), loopback(), quick()), put(t, plain(t, path), loopback(), quick())
}

// until waits for an event in another goroutine or process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(time.Millisecond), time.NewTimer(20*time.Second)
	defer tick.Stop()
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// listeners waits until s sees n rows of others, and returns them.
func listeners(t *testing.T, s *Doorbell, n int) (list []listener) {
	t.Helper()
	until(t, "the rows of others", func() bool {
		var err error
		if list, _, err = s.own.dir.rows(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(list) == n
	})
	return list
}

// watch waits for a queue, and returns when s can be rung for it.
func watch(t *testing.T, s, seenBy *Doorbell, queue string) <-chan struct{} {
	t.Helper()
	sub := s.Listen(queue)
	t.Cleanup(sub.Close)
	until(t, "the row", func() bool {
		list, _, err := seenBy.own.dir.rows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(l listener) bool { return l.id == s.own.dir.id && slices.Contains(l.Queues, queue) })
	})
	return sub.Rings()
}

func wantRing(t *testing.T, ring <-chan struct{}, after string) {
	t.Helper()
	select {
	case <-ring:
	case <-time.After(20 * time.Second):
		t.Fatalf("no ring after %s", after)
	}
}

func send(t *testing.T, s interface{ Queue(string) *storage.Queue }, queue string) {
	t.Helper()
	if err := s.Queue(queue).Send(t.Context(), []storage.Message{{Body: []byte("body")}}); err != nil {
		t.Fatal(err)
	}
}

// writeRow writes a listener's row by hand.
func writeRow(t *testing.T, s *Doorbell, id string, change func(*row)) {
	t.Helper()
	r := row{Version: version, Addresses: []string{"127.0.0.1:9"}, Queues: []string{"queue"}, Key: keyOf(1), Until: time.Now().Add(5 * time.Minute).Unix()}
	change(&r)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Table(tableName).Put(t.Context(), partition, id, data, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// socket opens a socket for a test's rings.
func socket(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
