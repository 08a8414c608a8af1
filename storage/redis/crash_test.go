package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A ledger notes what a store has acknowledged, under load from many goroutines.
type ledger struct {
	mu      sync.Mutex
	sent    map[string]bool         // messages that were acknowledged
	deleted map[string]bool         // messages whose deletion was acknowledged
	tried   map[string]bool         // messages whose deletion has another outcome, or none
	docs    map[string]storage.ETag // the last acknowledged state
	doubt   map[string]bool         // documents whose last write has an unknown outcome
	rows    map[string]bool
	refused int
}

func newLedger() *ledger {
	return &ledger{sent: map[string]bool{}, deleted: map[string]bool{}, tried: map[string]bool{}, docs: map[string]storage.ETag{}, doubt: map[string]bool{}, rows: map[string]bool{}}
}

func (l *ledger) note(err error, so func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused++
		return
	}
	so()
}

// work sends, handles and writes until ctx ends.
func (l *ledger) work(ctx context.Context, s *storage.Store, worker int) {
	q := s.Queue("jobs")
	name := fmt.Sprint("worker", worker)
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprint(name, " ", i)
		err := q.Send(ctx, texts(id))
		l.note(err, func() { l.sent[id] = true })
		etag, err := s.Blobs("docs").Put(ctx, name, []byte(id), storage.Condition{})
		l.note(err, func() { l.docs[name] = etag })
		l.mu.Lock()
		l.doubt[name] = err != nil
		l.mu.Unlock()
		_, err = s.Table("rows").Put(ctx, "p", id, []byte(id), storage.Condition{})
		l.note(err, func() { l.rows[id] = true })
		if i%2 > 0 {
			continue
		}
		got, err := q.Receive(ctx, 1, time.Hour)
		if err != nil || len(got) == 0 {
			continue
		}
		body := string(got[0].Body)
		l.note(nil, func() { l.tried[body] = true })
		err = q.Delete(ctx, []storage.Receipt{got[0].Receipt})
		l.note(err, func() { l.deleted[body] = true })
	}
}

// load works with some goroutines. The result ends the work.
func (l *ledger) load(ctx context.Context, s *storage.Store) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() { l.work(ctx, s, w) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

// missing returns how many acknowledged changes a store lacks. It reads the keys of the queue as they are, because what
// a call of unknown outcome has claimed is hidden.
func (l *ledger) missing(t *testing.T, s *storage.Store, server *redistest.Server, prefix string) (lost []string) {
	t.Helper()
	q := "{" + prefix + "}:q:jobs:"
	there := map[string]bool{}
	for _, key := range [][]string{{"LRANGE", q + "r", "0", "-1"}, {"HVALS", q + "b"}} {
		for _, whole := range strings.Split(server.Do(t, key...), "\n") {
			if at := strings.Index(whole, "worker"); at >= 0 {
				there[whole[at:]] = true
			}
		}
	}
	for id := range l.sent {
		if !there[id] && !l.tried[id] {
			lost = append(lost, "message "+id)
		}
	}
	for id := range l.deleted {
		if there[id] {
			lost = append(lost, "deletion of "+id)
		}
	}
	for name, etag := range l.docs {
		b, err := s.Blobs("docs").Get(t.Context(), name, "")
		if err != nil || b.ETag != etag && !l.doubt[name] {
			lost = append(lost, "document "+name)
		}
	}
	rows := map[string]bool{}
	for r, err := range s.Table("rows").Query(t.Context(), "p", storage.RowRange{}) {
		must(t, err)
		rows[r.Key] = true
	}
	for id := range l.rows {
		if !rows[id] {
			lost = append(lost, "row "+id)
		}
	}
	return lost
}

// A server that syncs each write loses nothing of what it has acknowledged, however often it is killed under load. The
// running program goes on by itself.
func TestAKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Always: true})
	s, inner := openStore(t, server.URL("killed"))
	l := newLedger()
	end := l.load(t.Context(), s)
	for kill := range 4 {
		want := l.count() + 100
		until(t, "the store acknowledges after "+strconv.Itoa(kill)+" kills", func() bool { return l.count() >= want })
		server.Kill(t)
		server.Restart(t)
	}
	end()
	awaitAnswer(t, s)
	if lost := l.missing(t, s, server, "killed"); len(lost) > 0 {
		t.Errorf("of %d messages, %d rows and %d deletions that were acknowledged, these are lost: %q", len(l.sent), len(l.rows), len(l.deleted), lost)
	}
	if n := inner.e.Lost(); n != 0 {
		t.Errorf("the process tells %d lost changes, want none", n)
	}
	if l.refused == 0 {
		t.Error("no call has met the end of the server")
	}
}

// While a server stands still, calls fail in bounded time with an error that says so. Once the
// server goes on, so does the program, and nothing that was acknowledged is lost.
func TestAServerStandsStill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Always: true})
	s, _ := openStore(t, server.URL("still"))
	l := newLedger()
	end := l.load(t.Context(), s)
	until(t, "the store works", func() bool { return l.count() > 50 })
	server.Stall(t)
	for what, call := range map[string]func() error{
		"a send":  func() error { return s.Queue("other").Send(t.Context(), texts("x")) },
		"a claim": func() error { return second(s.Queue("other").Receive(t.Context(), 1, time.Hour)) },
		"a read":  func() error { return second(s.Blobs("docs").Get(t.Context(), "x", "")) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := call()
		if ctx.Err() != nil {
			t.Errorf("%s hangs while the server stands still", what)
		}
		cancel()
		wantError(t, err, storage.ErrUnavailable)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v looks like the end of its caller's context", what, err)
		}
	}
	server.Resume(t)
	want := l.count() + 100
	until(t, "the store works again", func() bool { return l.count() >= want })
	end()
	if lost := l.missing(t, s, server, "still"); len(lost) > 0 {
		t.Errorf("lost although it was acknowledged: %q", lost)
	}
	if ahead := server.Do(t, "HGET", "{still}", "ahead"); ahead != "0" {
		t.Errorf("calls that were on their way for long have set the store's time to %s µs", ahead)
	}
}

// A failover under load loses nothing of what was acknowledged with wait=1. The program goes on with the new master.
func TestAFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	third := redistest.Start(t, redistest.Config{ReplicaOf: master})
	sentinels := redistest.StartSentinels(t, 3, master, "mymaster")
	third.Kill(t) // the sentinels can choose one only, the one that has what was acknowledged
	s, inner := openStore(t, sentinels.URL("ha")+"&wait=1")
	l := newLedger()
	end := l.load(t.Context(), s)
	until(t, "the store works", func() bool { return l.count() > 200 })
	master.Kill(t)
	sentinels.Await(t, replica)
	third.Restart(t)
	want := l.count() + 200
	until(t, "the store works on the new master", func() bool { return l.count() >= want })
	end()
	if lost := l.missing(t, s, replica, "ha"); len(lost) > 0 {
		t.Errorf("of %d messages that were acknowledged, these changes are lost: %q", len(l.sent), lost)
	}
	if n := inner.e.Lost(); n != 0 {
		t.Errorf("the process tells %d lost changes, want none", n)
	}
}

// Without wait, a failover to a replica that stood still loses acknowledged changes, and the program tells that many.
func TestAFailoverTellsWhatIsLost(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	sentinels := redistest.StartSentinels(t, 3, master, "mymaster")
	var log journal
	s, inner := openLogged(t, sentinels.URL("ha"), log.logger())
	must(t, s.Queue("jobs").Send(t.Context(), texts("kept")))
	awaitCopy(t, master, replica)
	replica.Stall(t)
	for i := range 30 {
		must(t, s.Queue("jobs").Send(t.Context(), texts(strconv.Itoa(i))))
	}
	master.Kill(t)
	replica.Resume(t)
	sentinels.Await(t, replica)
	until(t, "the store takes messages again", func() bool {
		return s.Queue("jobs").Send(t.Context(), texts("after")) == nil
	})
	st, err := s.Queue("jobs").Stats(t.Context())
	must(t, err)
	// The stalled replica's socket may have held what the master sent.
	if got := inner.e.Lost() + st.Ready; got != 32 {
		t.Errorf("%d changes are told as lost, and %d messages are there; want 32 in all", inner.e.Lost(), st.Ready)
	}
	if inner.e.Lost() > 0 && !strings.Contains(log.String(), "acknowledged changes are lost") {
		t.Errorf("the log doesn't tell of the loss:\n%s", &log)
	}
}
