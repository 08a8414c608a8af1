package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// With the memory full, sends and writes are refused with an error that says what to do. Claims, extensions, deletions
// and the opening of a store go on. A unit with a deletion and a send is refused whole, and its message comes again.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("full"))
	q := s.Queue("jobs")
	must(t, q.Send(t.Context(), texts("a", "b")))
	limit := fillMemory(t, server, q)

	for _, err := range []error{
		q.Send(t.Context(), texts("more")),
		second(s.Blobs("docs").Put(t.Context(), "d", make([]byte, 1<<20), storage.Condition{})),
		second(s.Blobs("docs").Put(t.Context(), "d", []byte("x"), storage.Condition{})),
		second(s.Table("rows").Put(t.Context(), "p", "r", []byte("x"), storage.Condition{})),
	} {
		wantError(t, err, storage.ErrUnavailable, "memory is full", "maxmemory", "messages are handled")
	}
	got, err := q.Receive(t.Context(), 2, time.Hour)
	if err != nil || len(got) != 2 {
		t.Fatalf("a claim with the memory full: %d messages, %v", len(got), err)
	}
	receipt, err := q.Extend(t.Context(), got[0].Receipt, time.Minute)
	must(t, err)
	_, err = s.Commit(t.Context(), storage.Work{
		Send:   []storage.Send{{Queue: "next", Message: storage.Message{Body: []byte("x")}}},
		Delete: []storage.Claim{{Queue: "jobs", Receipt: receipt}},
	})
	wantError(t, err, storage.ErrUnavailable, "memory is full")
	_, err = q.Extend(t.Context(), receipt, 0)
	must(t, err)
	must(t, q.Delete(t.Context(), []storage.Receipt{got[1].Receipt}))
	fresh, _ := openStore(t, server.URL("full"))
	drained, err := drain(t.Context(), fresh.Queue("jobs"), func(map[string]int) bool {
		st, err := fresh.Queue("jobs").Stats(t.Context())
		return err == nil && st.Ready+st.InFlight == 0
	})
	if err != nil || drained[string(got[0].Body)] != 1 || drained[string(got[1].Body)] != 0 {
		t.Errorf("a program that starts with the memory full handles %d messages, %v; want that of the refused unit, and not the deleted one", len(drained), err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", limit)
	must(t, q.Send(t.Context(), texts("there is memory again")))
}

func second[T any](_ T, err error) error { return err }

// fillMemory sends until the server refuses, and returns the limit that the sends have met. Then not the smallest write
// fits.
func fillMemory(t *testing.T, server *redistest.Server, q *storage.Queue) (limit string) {
	t.Helper()
	used, err := strconv.Atoi(info(t, server)["used_memory"])
	must(t, err)
	limit = strconv.Itoa(used + 4<<20)
	server.Do(t, "CONFIG", "SET", "maxmemory", limit)
	for i := 0; ; i++ {
		err := q.Send(t.Context(), texts(strings.Repeat(strconv.Itoa(i), 10000)))
		if err != nil {
			break
		}
		if i > 10000 {
			t.Fatal("the memory doesn't fill")
		}
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	return limit
}

// A server that forgets its scripts gets them again, and no call fails by that.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("flush"))
	q := s.Queue("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	var flushes, all sync.WaitGroup
	flushes.Go(func() {
		for ctx.Err() == nil {
			server.Do(t, "SCRIPT", "FLUSH", "SYNC")
		}
	})
	var handled atomic.Int64
	for w := range 8 {
		all.Go(func() {
			for i := range 200 {
				if err := q.Send(t.Context(), texts(fmt.Sprintf("%d %d", w, i))); err != nil {
					t.Errorf("send: %v", err)
				}
				got, err := q.Receive(t.Context(), 2, time.Hour)
				if err != nil {
					t.Errorf("receive: %v", err)
				}
				for _, d := range got {
					if err := q.Delete(t.Context(), []storage.Receipt{d.Receipt}); err != nil {
						t.Errorf("delete: %v", err)
					}
					handled.Add(1)
				}
			}
		})
	}
	all.Wait()
	cancel()
	flushes.Wait()
	st, err := q.Stats(t.Context())
	if must(t, err); handled.Load()+st.Ready != 1600 || st.InFlight != 0 {
		t.Errorf("handled %d, %d wait, %d in flight; want 1600 in all and none in flight", handled.Load(), st.Ready, st.InFlight)
	}
	if n := info(t, server)["total_error_replies"]; n == "0" {
		t.Error("no call has met a server without scripts")
	}
}

// A store that is wiped under a running program acknowledges nothing more, and says what to do. A program that starts
// then makes a new store, and the old one still acknowledges nothing.
func TestAWipedStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("wiped"))
	q := s.Queue("jobs")
	must(t, q.Send(t.Context(), texts("a", "b")))
	got, err := q.Receive(t.Context(), 1, time.Hour)
	must(t, err)
	refused := func() {
		t.Helper()
		_, receiveErr := q.Receive(t.Context(), 1, time.Hour)
		_, extendErr := q.Extend(t.Context(), got[0].Receipt, time.Hour)
		_, statsErr := q.Stats(t.Context())
		for _, err := range []error{
			q.Send(t.Context(), texts("x")), q.Delete(t.Context(), []storage.Receipt{got[0].Receipt}), receiveErr, extendErr, statsErr,
			second(s.Blobs("docs").Put(t.Context(), "d", []byte("x"), storage.Condition{IfAbsent: true})),
			second(s.Blobs("docs").Put(t.Context(), "d", make([]byte, 1<<20), storage.Condition{})),
			second(s.Table("rows").Put(t.Context(), "p", "r", []byte("x"), storage.Condition{})),
		} {
			wantError(t, err, storage.ErrUnavailable, "wiped", "restart the program")
		}
	}
	server.Do(t, "FLUSHALL")
	refused()
	fresh, _ := openStore(t, server.URL("wiped"))
	must(t, fresh.Queue("jobs").Send(t.Context(), texts("new")))
	refused()
	if d := receiveOne(t, fresh.Queue("jobs"), time.Hour); string(d.Body) != "new" {
		t.Errorf("the new store has %q", d.Body)
	}
}

// A large document comes by a name of its own, and that name is gone when the document is there, and when a condition
// has refused the document. A dead writer's name goes away by itself. A document stays.
func TestLargeDocuments(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, shared)
	prefix := redistest.Fresh()
	s, inner := openStore(t, server.URL(prefix))
	docs := s.Blobs("docs")
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	names := func() string { return server.Do(t, "KEYS", "{"+prefix+"}:big:*") }

	etag, err := docs.Put(t.Context(), "d", body, storage.Condition{IfAbsent: true})
	must(t, err)
	key := "{" + prefix + "}:D:docs\x00d"
	if got := server.Do(t, "TTL", key); got != "-1" || names() != "" {
		t.Errorf("the document lives for %s s, and there are the names %q; want -1 and none", got, names())
	}
	_, err = docs.Put(t.Context(), "d", body, storage.Condition{IfAbsent: true})
	if !errors.Is(err, storage.ErrExists) || names() != "" {
		t.Errorf("a second document: %v, and the names %q; want %v and none", err, names(), storage.ErrExists)
	}
	if _, err = docs.Put(t.Context(), "d", body[1:], storage.Condition{IfMatch: etag}); err != nil {
		t.Errorf("replace: %v", err)
	}
	if b, err := docs.Get(t.Context(), "d", ""); err != nil || !bytes.Equal(b.Body, body[1:]) {
		t.Errorf("got %d bytes, %v; want those that were written", len(b.Body), err)
	}
	if _, err := inner.e.PutLarge(t.Context(), "left by a writer that died"); err != nil {
		t.Fatal(err)
	}
	left := names()
	if ttl, err := strconv.Atoi(server.Do(t, "TTL", left)); err != nil || ttl < 3000 || ttl > 3600 {
		t.Errorf("what a dead writer left lives for %d s, %v; want an hour", ttl, err)
	}
	server.Do(t, "PEXPIRE", left, "1") // the hour is over
	until(t, "it is gone", func() bool { return names() == "" })
}
