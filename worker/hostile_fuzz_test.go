package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// strangersBody is a claim-checked body of a queue that the tests don't use.
const strangersBody = "strangers/0190b6a2-7b1c-7def-8123-456789abcdef"

// A victim is a worker of a world whose queues may hold any bytes. It lives in virtual time.
type victim struct {
	*world
	worker   *worker.Worker
	poisoned map[string]*atomic.Int64 // by queue, counted from its log
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	ctx, store := context.WithoutCancel(t.Context()), worldtest.OpenStore(t, worldtest.Virtual)
	v := &victim{world: newWorld(t, store), poisoned: map[string]*atomic.Int64{}}
	for _, queue := range hostileQueues {
		v.poisoned[queue] = new(atomic.Int64)
	}
	decide := v.decide
	v.decide = func(a Account, c Add) (Account, []channel.Message, error) {
		switch c.Note {
		case "no":
			return a, nil, errors.New("no")
		case "panic":
			panic("on request")
		}
		return decide(a, c)
	}
	var err error
	v.worker, err = worker.New(v.Registry, worker.Config{
		Logger: slog.New(poisonLog{slog.DiscardHandler, v, ""}), MaxAttempts: 2, MaxDeliveries: 3, UnknownFor: time.Nanosecond, RetryDelay: func(int, string) time.Duration { return time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Blobs("claims").Put(ctx, strangersBody, []byte("{}"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- v.worker.Run(running) }()
	t.Cleanup(func() {
		stop()
		worldtest.WantErr(t, <-ended, nil)
	})
	return v
}

// A poisonLog counts the messages that go to the poison queue.
type poisonLog struct {
	slog.Handler
	v     *victim
	queue string
}

func (l poisonLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "queue" {
			l.queue = a.Value.String()
		}
	}
	return l
}

func (l poisonLog) Enabled(context.Context, slog.Level) bool { return true }

func (l poisonLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "message is in the poison queue" {
		l.v.poisoned[l.queue].Add(1)
	}
	return nil
}

// ends puts bodies into a queue. It demands that each ends: handled, or whole in the poison queue.
func (v *victim) ends(t *testing.T, queue string, bodies ...[]byte) {
	t.Helper()
	entries := poison.At(v.Channels, queue)
	handled, poisoned := v.worker.Handled(queue), v.poisoned[queue].Load()
	messages := make([]storage.Message, len(bodies))
	undecodable := map[string]bool{}
	for i, body := range bodies {
		messages[i].Body = body
		if _, err := wire.Decode(body); err != nil {
			undecodable[string(body)] = true
		}
	}
	if err := v.Store.Queue(queue).Send(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	v.empty(t, 100*time.Millisecond) // of the events, too
	if n := v.worker.Handled(queue) - handled + v.poisoned[queue].Load() - poisoned; n < int64(len(bodies)) {
		t.Errorf("handled or in the poison queue: %d of the %d messages %q", n, len(bodies), bodies)
	}
	found := 0
	for m, err := range entries.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if m.ID == "" && !undecodable[string(m.Body)] || m.Reason == poison.ReasonUnreadable || strings.ContainsAny(m.Error, "\n\x1b") {
			t.Errorf("got the entry %+v of none of %q", m, bodies)
		}
		delete(undecodable, string(m.Body))
		if err := entries.Discard(t.Context(), m.Key); err != nil {
			t.Error(err)
		}
		found++
	}
	if len(undecodable) > 0 || found == 0 && v.poisoned[queue].Load() > poisoned {
		t.Errorf("%d in the poison queue; not there: %q", found, slices.Collect(maps.Keys(undecodable)))
	}
	if _, err := v.Store.Blobs("claims").Get(t.Context(), strangersBody, ""); err != nil {
		t.Errorf("%q: a body of another queue: %v", bodies, err)
	}
}

func command(rest string) string {
	return `{"specversion":"1.0","id":"a","source":"/web","type":"test.add.v1"` + rest + `}`
}

// hostile are bodies that an attacker with access to a queue could think of.
var hostile = []string{
	"", "null", "{}", "[]", `"`, "\x00", "\xff", strings.Repeat("[", 20_000), command(""), command(`,"data":7`), command(`,"data":{"to":"a","amount":"x"}`),
	command(`,"data":{"to":"a","amount":1}`), command(`,"data":{"to":"a","amount":2}`), command(`,"data":{"to":""}`), command(`,"data":{"to":"a\u0000"}`),
	command(`,"data":{"to":"../../etc","amount":1,"note":"panic"}`), command(`,"data":{"to":"b","amount":1e30}`), command(`,"data":{"to":"b","note":"no"}`),
	command(`,"data":{"to":"b","note":"no"},"attempts":9223372036854775807`), command(`,"data":{"to":"b","note":"panic"},"handbacks":9223372036854775807,"attempts":9223372036854775807`),
	command(`,"data":{"to":"b","note":"no"},"handbacks":9223372036854775807`), command(`,"data":{"to":"b","note":"no"},"attempts":1,"handbacks":1000000`),
	command(`,"dataref":"claims/` + strangersBody + `"`), command(`,"dataref":"claims/accounts/0190b6a2-7b1c-7def-8123-456789abcdef"`), command(`,"dataref":"claims/accounts/../strangers/x"`),
	command(`,"time":"0000-01-01T00:00:00Z","sequence":"18446744073709551615","data":{"to":"a","amount":1}`),
	`{"specversion":"1.0","id":"f6f6f6f6-f6f6-7f6f-bf6f-f6f6f6f6f6f6","source":"/web","type":"test.add.v1","data":{"to":"a"}}`,
	`{"specversion":"1.0","id":"u","source":"/web","type":"test.unknown.v1","firstfailed":"9999-12-31T23:59:59Z","data":{}}`,
	`{"specversion":"1.0","id":"u","source":"/web","type":"test.unknown.v1","handbacks":9223372036854775807,"data":{}}`,
	`{"specversion":"1.0","id":"e","source":"/web","type":"test.added.v1","data":{"to":"a","amount":1}}`,
}

var hostileQueues = []string{"accounts", "totals", "audits"}

func TestHostileMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		v := newVictim(t)
		for _, body := range hostile {
			for _, queue := range hostileQueues {
				v.ends(t, queue, []byte(body))
			}
		}
	})
}

// Whatever bytes a queue holds, a worker handles the message or puts it into the poison queue whole. It loses nothing,
// and no message comes back for ever.
func FuzzMessage(f *testing.F) {
	for i, body := range hostile {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, queue uint8, body []byte) {
		bodies := [][]byte{body}
		for part := 7; part >= 0; part-- { // its prefixes cost little more
			if cut := body[:len(body)*part/8]; len(cut) < len(bodies[len(bodies)-1]) {
				bodies = append(bodies, cut)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			if v := newVictim(t); len(body) <= v.Store.Props().MaxMessage {
				v.ends(t, hostileQueues[int(queue)%len(hostileQueues)], bodies...)
			}
		})
	})
}

// A message that kills its workers is recognised, however many hand-backs it claims.
func TestHistoryThatCantBe(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		for _, history := range []string{`"handbacks":1000000`, `"attempts":9223372036854775807`, `"attempts":1,"handbacks":9223372036854775807`, `"hops":1000000`, `"attempts":1,"hops":9223372036854775807`} {
			l := newLab(t, s, func(context.Context, job) error { return nil })
			body := `{"specversion":"1.0","id":"a","source":"/x","type":"test.job.v1",` + history + `,"data":{"name":"killer"}}`
			if err := s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
				t.Fatal(err)
			}
			for range 20 { // workers that die with it
				if ds, err := s.Queue("jobs").Receive(t.Context(), 1, time.Second); err != nil || len(ds) != 1 {
					t.Fatalf("got %d, %v; want it", len(ds), err)
				}
				time.Sleep(2 * time.Second)
			}
			stop := l.Start(worker.Config{MaxDeliveries: 20})
			l.empty(t, time.Second)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if p := l.onePoisoned(t); p.Reason != handlers.ReasonDeliveries || len(l.called()) > 0 {
				t.Errorf("%s: got %+v, %d calls; want it found out", history, p, len(l.called()))
			}
			if err := l.poison.Discard(t.Context(), l.onePoisoned(t).Key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// An error of any length keeps no message out of the poison queue.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s, func(context.Context, job) error {
			return handlers.Poison("long", errors.New(strings.Repeat("ü", 40<<20)))
		})
		l.sendJobs(t, job{ID: "a"})
		stop := l.Start(worker.Config{})
		l.empty(t, time.Second)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if p := l.onePoisoned(t); len(p.Error) > 70_000 || !strings.Contains(p.Error, "üü") {
			t.Errorf("got an error of %d bytes, want its beginning", len(p.Error))
		}
	})
}

// An entry that can't be read ends no listing, however many there are. An entry as large as a blob may be is read
// alone.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := poisonAll(t, s, nil, job{ID: "a"}, job{ID: "b"})
		blobs := s.Blobs("poison")
		for i := range 40 {
			if _, err := blobs.Put(t.Context(), fmt.Sprintf("jobs/%02d", i), []byte("no entry"), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := blobs.Put(t.Context(), "jobs/large", make([]byte, 20<<20), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		reasons := map[string]int{}
		for m, err := range l.poison.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			reasons[m.Reason]++
			if m.Reason != poison.ReasonUnreadable {
				continue
			}
			if m.Error == "" || len(m.Body) < 8 || m.ID != "" {
				t.Errorf("got %.200v, want the blob and what is wrong", m)
			}
			if err := l.poison.Retry(t.Context(), m.Key); err == nil || !strings.Contains(err.Error(), m.Key) {
				t.Errorf("retry: got %v, want an error that names it", err)
			}
			if err := l.poison.DiscardIf(t.Context(), m.Key, m.ETag); err != nil {
				t.Errorf("discard: got %v", err)
			}
		}
		worldtest.Want(t, "unreadable", reasons[poison.ReasonUnreadable], 41)
		worldtest.Want(t, "readable", reasons["bad"], 2)
		worldtest.Want(t, "left", len(l.Poisoned("jobs")), 2)
	})
}
