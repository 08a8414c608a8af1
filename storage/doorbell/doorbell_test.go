package doorbell

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("MILLRACE_DOORBELL_CHILD"); path != "" {
		os.Exit(child(path))
	}
	os.Exit(m.Run())
}

// quick reads the table as often as it likes.
func quick() pace {
	p := usualPace()
	p.readEvery, p.readSoon = time.Millisecond, time.Millisecond
	return p
}

func loopback() Config { return Config{Listen: "127.0.0.1:0"} }

// plain opens a file as a store that can do no more than it must.
func plain(t *testing.T, path string) storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	return storagetest.Plain(s)
}

// put puts a doorbell over a store, until the end of the test.
func put(t *testing.T, inner storage.Store, cfg Config, p pace) *store {
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
	return s.(*store)
}

// two opens what would be two processes.
func two(t *testing.T) (a, b *store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	return put(t, plain(t, path), loopback(), quick()), put(t, plain(t, path), loopback(), quick())
}

// until waits for what happens elsewhere.
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

// listeners waits for so many rows that others see, and returns them.
func listeners(t *testing.T, s *store, n int) (list []listener) {
	t.Helper()
	until(t, "the rows of others", func() bool {
		var err error
		if list, err = s.rows(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(list) == n
	})
	return list
}

// watch waits for a queue, until s can be rung for it.
func watch(t *testing.T, s, seenBy *store, queue string) <-chan struct{} {
	t.Helper()
	ring, stop := s.Wake(queue)
	t.Cleanup(stop)
	until(t, "the row", func() bool {
		list, err := seenBy.rows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(l listener) bool { return l.id == s.id && slices.Contains(l.Queues, queue) })
	})
	return ring
}

func wantRing(t *testing.T, ring <-chan struct{}, after string) {
	t.Helper()
	select {
	case <-ring:
	case <-time.After(20 * time.Second):
		t.Fatalf("no ring after %s", after)
	}
}

func send(t *testing.T, s storage.Store, queue string) {
	t.Helper()
	if err := s.Queue(queue).Send(t.Context(), []storage.Message{{Body: []byte("body")}}); err != nil {
		t.Fatal(err)
	}
}

func TestOthersAreRung(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	q := b.Queue("queue")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one := func() storage.Receipt {
		t.Helper()
		got, err := q.Receive(t.Context(), 1, time.Hour)
		must(err)
		if len(got) != 1 {
			t.Fatalf("received %d messages; want 1", len(got))
		}
		return got[0].Receipt
	}
	send(t, b, "queue") // nothing is known yet: the table is read, and then the ring goes out
	wantRing(t, ring, "the first send")
	send(t, b, "queue")
	wantRing(t, ring, "a send")
	_, err := storage.Commit(t.Context(), b, storage.Work{Send: []storage.Send{{Queue: "queue"}}})
	must(err)
	wantRing(t, ring, "a commit")
	_, err = q.Extend(t.Context(), one(), 0)
	must(err)
	wantRing(t, ring, "handing back")
	must(q.Rewrite(t.Context(), one(), nil, 0))
	wantRing(t, ring, "a rewrite")
	must(q.Send(t.Context(), []storage.Message{{Delay: 500 * time.Millisecond}}))
	wantRing(t, ring, "a delayed send")
	if err := q.Delete(t.Context(), []storage.Receipt{one()}); err != nil {
		t.Fatal(err)
	}
	if got := a.Counts(); got.Heard < 6 || got.Refused != 0 {
		t.Errorf("the listener counts %+v", got)
	}
	if got := b.Counts(); got.Sent < 6 {
		t.Errorf("the sender counts %+v", got)
	}
}

// TestLastSend has a process send and end: it must tell first, though it doesn't know yet whom.
func TestLastSend(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	ring := watch(t, a, b, "queue")
	send(t, b, "queue")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantRing(t, ring, "a send just before the end")
}

func TestSendDoesNotWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	hold := make(chan struct{})
	slow := storagetest.Intercept(plain(t, path), func(ctx context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "query" {
			<-hold
		}
		return do()
	})
	a, b := put(t, plain(t, path), loopback(), quick()), put(t, slow, loopback(), quick())
	other := put(t, plain(t, path), loopback(), quick())
	ring := watch(t, a, other, "queue")
	for range 100 {
		send(t, b, "queue") // would wait for ever
	}
	close(hold)
	wantRing(t, ring, "the table could be read")
}

// TestRequests counts what all of it costs.
func TestRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var listening, sending storagetest.Calls
	slow := usualPace()
	slow.settle = 300 * time.Millisecond
	a := put(t, storagetest.Intercept(plain(t, path), listening.Hook), loopback(), slow)
	b := put(t, storagetest.Intercept(plain(t, path), sending.Hook), loopback(), usualPace())
	other := put(t, plain(t, path), loopback(), usualPace())
	_, stop := a.Wake("first")
	defer stop()
	ring := watch(t, a, other, "second")
	for range 20 {
		send(t, b, "second")
		wantRing(t, ring, "a send")
	}
	until(t, "the listener's tidying", func() bool { return listening.Count() >= 2 })
	if rows, reads, all := listening.Count("put row"), listening.Count("query"), listening.Count(); rows != 1 || reads != 1 || all != 2 {
		t.Errorf("a listener for two queues wrote %d rows and read %d times, in %d requests; want one of each", rows, reads, all)
	}
	if reads, all := sending.Count("query"), sending.Count(); reads != 1 || all != 21 {
		t.Errorf("a sender read the table %d times in %d requests; want once, and a request for each send", reads, all)
	}
	_, stop = a.Wake("third")
	stop()
	watch(t, a, other, "fourth")
	if rows := listening.Count("put row"); rows > 3 {
		t.Errorf("%d rows written for two more queues", rows)
	}
}

func TestRowsComeAndGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	p := quick()
	p.renew = 50 * time.Millisecond
	b := put(t, plain(t, path), loopback(), quick())
	for id, age := range map[string]time.Duration{"long dead": 2 * time.Hour, "just dead": time.Minute} {
		writeRow(t, b, id, func(r *row) { r.Until = time.Now().Add(-age).Unix() })
	}
	a := put(t, plain(t, path), loopback(), p)
	ring, stop := a.Wake("queue")
	list := listeners(t, b, 2)
	until(t, "the row to be renewed", func() bool {
		next := listeners(t, b, 2)
		return !slices.Equal(etags(next), etags(list))
	})
	if !slices.ContainsFunc(list, func(l listener) bool { return l.id == "just dead" }) {
		t.Error("the row of somebody whose clock may be behind was removed")
	}
	stop()
	listeners(t, b, 1) // nobody waits any more
	_, stop = a.Wake("queue")
	defer stop()
	listeners(t, b, 2)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := listeners(t, b, 1); got[0].id != "just dead" {
		t.Errorf("row %q is left", got[0].id)
	}
	select {
	case <-ring:
		t.Error("a ring for nothing")
	default:
	}
}

func etags(list []listener) (tags []storage.ETag) {
	for _, l := range list {
		tags = append(tags, l.etag)
	}
	return tags
}

// TestBlocked can't open its socket: there are rings within the process and no others, and one line says so.
func TestBlocked(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var log lines
	var calls storagetest.Calls
	s := put(t, storagetest.Intercept(plain(t, filepath.Join(t.TempDir(), "test.db")), calls.Hook),
		Config{Listen: taken.LocalAddr().String(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, quick())
	first, stop := s.Wake("first")
	defer stop()
	until(t, "a line in the log", func() bool { return log.String() != "" })
	second, stop := s.Wake("second")
	defer stop()
	send(t, s, "first")
	wantRing(t, first, "a send of this process")
	send(t, s, "second")
	wantRing(t, second, "a send of this process")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "can't be rung") {
		t.Errorf("the log has\n%s\nwant one warning", got)
	}
	if n := calls.Count("put row", "delete row"); n != 0 {
		t.Errorf("%d rows written for a process that can't be rung", n)
	}
}

// TestTableFails sees that sends go on, and that the log has one line for each process.
func TestTableFails(t *testing.T) {
	t.Parallel()
	var log lines
	var mu sync.Mutex
	failed, broken := 0, true
	path := filepath.Join(t.TempDir(), "test.db")
	inner := storagetest.Intercept(plain(t, path), func(ctx context.Context, op storagetest.Op, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if broken && op.Name != "send" {
			failed++
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	p := quick()
	p.retry = time.Millisecond
	s := put(t, inner, Config{Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))}, p)
	ring, stop := s.Wake("watched")
	defer stop()
	until(t, "a few failures of each sort", func() bool {
		send(t, s, "elsewhere")
		mu.Lock()
		defer mu.Unlock()
		return failed > 10 && strings.Contains(log.String(), "publish") && strings.Contains(log.String(), "read")
	})
	if got := log.String(); strings.Count(got, "can't publish") != 1 || strings.Count(got, "can't read") != 1 || strings.Count(got, "\n") != 2 {
		t.Errorf("the log has\n%s\nwant one line about writing and one about reading", got)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	b := put(t, plain(t, path), loopback(), quick())
	listeners(t, b, 1)
	send(t, b, "watched")
	wantRing(t, ring, "the table works again")
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

// able is a store with abilities, as a driver with counted requests or atomic commits would be.
type able struct {
	storage.Store
	storage.Committer
	storage.Tally
}

func (a *able) Unwrap() storage.Store { return a.Store }

func (a *able) Props() storage.Props {
	p := a.Store.Props()
	p.Atomic = true
	return p
}

// newAble hides what of a store is not wanted, above all its rings.
func newAble(s storage.Store) *able {
	committer, _ := storage.As[storage.Committer](s)
	return &able{Store: storagetest.Plain(s), Committer: committer}
}

func TestAbilities(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	own, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Over(own, Config{Fanout: -1}); s != own || err != nil {
		t.Errorf("over a store that rings: got %v, %v; want that store", s, err)
	}
	if _, err := Over(plain(t, path), Config{Fanout: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("with a bad Config: error %v", err)
	}
	inner := newAble(own)
	s, err := Over(inner, loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := storage.As[storage.Meter](s); !ok {
		t.Error("a Meter beneath is not found")
	}
	if _, ok := storage.As[Counter](s); !ok {
		t.Error("it is no Counter")
	}
	if c, ok := storage.As[storage.Committer](s); !ok || c == inner.Committer {
		t.Error("a commit goes past the doorbell")
	}
	w, ok := storage.As[storage.Waker](s)
	if !ok {
		t.Fatal("it is no Waker")
	}
	ring, stop := w.Wake("queue")
	defer stop()
	work := storage.Work{
		Write: &storage.Write{Container: "container", Key: "key", If: storage.Condition{IfAbsent: true}},
		Send:  []storage.Send{{Queue: "queue"}},
	}
	if _, err := storage.Commit(t.Context(), s, work); err != nil {
		t.Fatal(err)
	}
	wantRing(t, ring, "an atomic commit")
	if _, err := storage.Commit(t.Context(), s, work); !errors.Is(err, storage.ErrExists) {
		t.Fatalf("the same again: error %v", err)
	}
	got, err := s.Queue("queue").Receive(t.Context(), 1, time.Second)
	if err != nil || len(got) != 1 {
		t.Fatalf("received %v, %v", got, err)
	}
	if _, err := storage.Commit(t.Context(), s, storage.Work{Delete: []storage.Claim{{Queue: "queue", Receipt: got[0].Receipt}}}); err != nil {
		t.Fatal(err)
	}
	if b := s.(*committing).bells; len(ring) != 0 || len(b.queues["queue"].held) != 0 {
		t.Errorf("%d rings and %+v; want none for a failed commit, and nothing in hand", len(ring), b.queues["queue"])
	}
}

// TestCloseEndsEverything runs in a bubble, which is left only when all that was started in it has ended.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Over(plain(t, path), loopback())
		if err != nil {
			t.Fatal(err)
		}
		ring, stop := s.(storage.Waker).Wake("queue")
		send(t, s, "queue")
		send(t, s, "other")
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		<-ring
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{}}); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("send after Close: error %v", err)
		}
		ring, after := s.(storage.Waker).Wake("queue")
		if len(ring) != 0 {
			t.Error("a ring after Close")
		}
		after()
		stop()
	})
}

// Messages came without a ring. Whoever finds so many that there may be more wakes another; who finds few, nobody.
func TestBacklogWakesOthers(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	watch(t, a, b, "jobs")
	second := watch(t, b, a, "jobs")

	quiet := a.Store.Queue("jobs")
	most := a.Props().MaxReceive
	if err := quiet.Send(t.Context(), make([]storage.Message, most+3)); err != nil {
		t.Fatal(err)
	}
	for len(second) > 0 {
		<-second
	}
	sent := a.Counts().Sent
	if got, err := a.Queue("jobs").Receive(t.Context(), most, time.Minute); err != nil || len(got) != most {
		t.Fatalf("received %d, %v", len(got), err)
	}
	<-second
	until(t, "the ring to be counted", func() bool { return a.Counts().Sent == sent+1 })
	if got, err := a.Queue("jobs").Receive(t.Context(), most, time.Minute); err != nil || len(got) != 3 {
		t.Fatalf("received %d, %v", len(got), err)
	}
	if n := a.Counts().Sent; n != sent+1 {
		t.Errorf("%d rings for a handful of messages", n-sent-1)
	}
}
