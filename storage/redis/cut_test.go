package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A cutter stands between a store and its server. When it is armed, it takes the next answer away, does something, and
// cuts the connection. So the server has done the call, and the caller doesn't know.
type cutter struct {
	socket string
	armed  atomic.Pointer[func()]
	late   atomic.Pointer[held]
	every  int64 // each so manieth answer is taken away; 0 for none
	count  atomic.Int64
}

func newCutter(t *testing.T, to *redistest.Server) *cutter {
	t.Helper()
	dir, err := os.MkdirTemp("", "cut") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cutter{socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", c.socket)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(from, to)
		}
	}()
	return c
}

func (c *cutter) carry(from net.Conn, to *redistest.Server) {
	defer func() { _ = from.Close() }()
	server, err := net.Dial("unix", to.Socket())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		c.ask(from, server)
		_ = server.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if c.every > 0 && c.count.Add(1)%c.every == 0 {
			return
		}
		if do := c.armed.Swap(nil); do != nil {
			(*do)()
			return
		}
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
	}
}

// ask carries what a store asks. When the cutter is told to, it cuts the connection before a question, and asks the
// server later.
func (c *cutter) ask(from, server net.Conn) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if hold := c.late.Swap(nil); hold != nil {
			_ = from.Close()
			<-hold.until
			_, _ = server.Write(buf[:n])
			_, _ = server.Read(buf)
			close(hold.asked)
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// A held question waits until it is asked.
type held struct{ until, asked chan struct{} }

// cut makes a call whose answer is lost.
func (c *cutter) cut(t *testing.T, meanwhile func(), call func() error) error {
	t.Helper()
	done := make(chan struct{})
	do := func() {
		defer close(done)
		meanwhile()
	}
	c.armed.Store(&do)
	err := call()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("no answer was taken away")
	}
	return err
}

// cutStore opens a store behind a cutter. The store hears no rings, so it has one connection. With it comes the same
// store without a cutter.
func cutStore(t *testing.T) (*cutter, *storage.Store, *storage.Store) {
	t.Helper()
	server := redistest.Start(t, redistest.Config{})
	c := newCutter(t, server)
	s, _ := openStore(t, "redis+unix://"+c.socket+"?prefix=app&wake=off")
	direct, _ := openStore(t, server.URL("app"))
	return c, s, direct
}

func nothing() {}

// Law: a connection that is cut under a call is hidden. The call is repeated, and what it has done isn't done twice,
// whatever others do in between.
func TestLawACutCallIsDoneOnce(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	ctx := t.Context()
	docs, rows, q := s.Blobs("docs"), s.Table("rows"), s.Queue("jobs")
	otherDocs, otherRows, otherJobs := direct.Blobs("docs"), direct.Table("rows"), direct.Queue("jobs")
	absent := storage.Condition{IfAbsent: true}
	put := func(b *storage.Blobs, key, body string, cond storage.Condition) storage.ETag {
		etag, err := b.Put(ctx, key, []byte(body), cond)
		if err != nil {
			t.Errorf("put %s: %v", body, err)
		}
		return etag
	}
	wantDoc := func(key, want string) {
		t.Helper()
		got, err := docs.Get(ctx, key, "")
		if errors.Is(err, storage.ErrNotFound) {
			got.Body = []byte("nothing")
		} else if err != nil {
			t.Error(err)
		}
		if string(got.Body) != want {
			t.Errorf("document %s is %.20q, want %q", key, got.Body, want)
		}
	}
	large := strings.Repeat("x", engine.Large)
	put(docs, "warm", large, storage.Condition{}) // the server learns the scripts
	must(t, q.Send(ctx, texts("warm")))
	warm, err := q.Receive(ctx, 1, time.Hour)
	must(t, err)
	must(t, q.Delete(ctx, []storage.Receipt{warm[0].Receipt}))

	// Documents: guarded, unguarded, created, deleted by another, and large.
	etag := put(docs, "a", "1", storage.Condition{})
	for n := 2; n < 5; n++ {
		must(t, c.cut(t, nothing, func() error { etag = put(docs, "a", fmt.Sprint(n), storage.Condition{IfMatch: etag}); return nil }))
	}
	wantDoc("a", "4")
	must(t, c.cut(t, func() { put(otherDocs, "a", "other", storage.Condition{}) }, func() error { put(docs, "a", "5", storage.Condition{IfMatch: etag}); return nil }))
	wantDoc("a", "other")
	must(t, c.cut(t, func() {
		got, err := otherDocs.Get(ctx, "b", "")
		if err != nil {
			t.Error(err)
		}
		put(otherDocs, "b", string(got.Body)+" and more", storage.Condition{IfMatch: got.ETag})
	}, func() error { put(docs, "b", "base", storage.Condition{}); return nil }))
	wantDoc("b", "base and more")
	must(t, c.cut(t, func() {
		if err := otherDocs.Delete(ctx, "c", storage.Condition{}); err != nil {
			t.Error(err)
		}
	}, func() error { put(docs, "c", "1", absent); return nil }))
	wantDoc("c", "nothing")
	must(t, c.cut(t, nothing, func() error { return docs.Delete(ctx, "a", storage.Condition{}) }))
	inner, big := s.Driver().(*store), new(engine.Unit)
	_, err = inner.write(ctx, big, "docs", "big", []byte(large), driver.Condition{IfAbsent: true})
	must(t, err)
	must(t, c.cut(t, func() { put(otherDocs, "big", "other", storage.Condition{}) }, func() error { return inner.one(ctx, big) }))
	wantDoc("big", "other")

	// Rows.
	putRow := func(x *storage.Table, body string, cond storage.Condition) {
		if _, err := x.Put(ctx, "p", "k", []byte(body), cond); err != nil {
			t.Errorf("put row %s: %v", body, err)
		}
	}
	must(t, c.cut(t, nothing, func() error { putRow(rows, "1", absent); return nil }))
	for _, drop := range []func() error{
		func() error { return rows.Delete(ctx, "p", "k", storage.Condition{}) },
		func() error { return rows.DeleteBatch(ctx, "p", []string{"k"}) },
	} {
		must(t, c.cut(t, func() { putRow(otherRows, "new", absent) }, drop))
		if got, err := rows.Get(ctx, "p", "k"); err != nil || string(got.Data) != "new" {
			t.Errorf("the row is %q, %v; want what was put after the deletion", got.Data, err)
		}
	}

	// Messages: one send is one message, whose holder keeps it.
	var held storage.Delivery
	must(t, c.cut(t, func() { held = receiveOne(t, otherJobs, time.Hour) }, func() error { return q.Send(ctx, texts("job")) }))
	if list, err := otherJobs.Receive(ctx, 10, time.Hour); err != nil || len(list) != 0 {
		t.Errorf("a send that was cut brings %d messages more (%v)", len(list), err)
	}
	next := held.Receipt
	must(t, c.cut(t, nothing, func() (err error) { next, err = q.Extend(ctx, held.Receipt, time.Hour); return err }))
	must(t, c.cut(t, nothing, func() error { return q.Rewrite(ctx, next, []byte("again"), 0) }))
	again := receiveOne(t, otherJobs, time.Hour)
	if string(again.Body) != "again" {
		t.Errorf("got %q, want the rewritten body", again.Body)
	}
	must(t, c.cut(t, nothing, func() error { return q.Delete(ctx, []storage.Receipt{again.Receipt}) }))

	// The unit of work of a handler: a document, an event, and the end of the message.
	must(t, q.Send(ctx, texts("unit")))
	held = receiveOne(t, q, time.Hour)
	must(t, c.cut(t, func() {
		if err := otherDocs.Delete(ctx, "unit", storage.Condition{}); err != nil {
			t.Error(err)
		}
	}, func() error {
		did, err := s.Commit(ctx, storage.Work{
			Write:  &storage.Write{Container: "docs", Key: "unit", Body: []byte("1"), If: absent},
			Send:   []storage.Send{{Queue: "events", Message: texts("event")[0]}},
			Delete: []storage.Claim{{Queue: "jobs", Receipt: held.Receipt}},
		})
		if len(did.Stale) > 0 {
			t.Errorf("stale: %v", did.Stale)
		}
		return err
	}))
	wantDoc("unit", "nothing")
	receiveOne(t, direct.Queue("events"), time.Hour)

	// Conditions that don't hold say so after a repeat, too.
	if err := c.cut(t, nothing, func() error { _, err := docs.Put(ctx, "b", []byte("x"), absent); return err }); !errors.Is(err, storage.ErrExists) {
		t.Errorf("got %v, want that there is one", err)
	}
	must(t, c.cut(t, nothing, func() error { _, err := docs.Get(ctx, "b", ""); return err }))
	must(t, c.cut(t, nothing, func() error { _, err := docs.Get(ctx, "warm", ""); return err }))
	must(t, c.cut(t, nothing, func() error { _, err := q.Stats(ctx); return err }))
	if lost, _, err := inner.e.Losses(ctx); err != nil || lost != 0 {
		t.Errorf("%d changes are lost (%v), want none", lost, err)
	}
}

// Law: a call that reaches the server after its repeat does nothing, however many calls have been done since.
func TestLawACallThatArrivesLateDoesNothing(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	q, other := s.Queue("jobs"), direct.Queue("jobs")
	for _, n := range []int{0, 30} { // calls between the repeat and the late one, on both flights
		must(t, q.Send(t.Context(), texts("warm"))) // the server knows the script
		warm := receiveOne(t, other, time.Hour)
		must(t, other.Delete(t.Context(), []storage.Receipt{warm.Receipt}))
		x := &held{make(chan struct{}), make(chan struct{})}
		c.late.Store(x)
		must(t, q.Send(t.Context(), texts("job")))
		for range n {
			_, err := s.Blobs("docs").Put(t.Context(), "a", []byte("x"), storage.Condition{})
			must(t, err)
		}
		d := receiveOne(t, other, time.Hour)
		close(x.until)
		<-x.asked
		if list, err := other.Receive(t.Context(), 10, time.Hour); err != nil || len(list) != 0 {
			t.Errorf("the late call has sent %d messages (%v)", len(list), err)
		}
		must(t, other.Delete(t.Context(), []storage.Receipt{d.Receipt}))
	}
}

// Law: the store tells the loss of an acknowledged change whose first answer was lost, too.
func TestLawTheLossOfACutCallIsTold(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	ctx := t.Context()
	docs, inner := s.Blobs("docs"), s.Driver().(*store)
	etag, err := docs.Put(ctx, "a", []byte("1"), storage.Condition{})
	must(t, err)
	must(t, c.cut(t, nothing, func() error {
		_, err := docs.Put(ctx, "a", []byte("2"), storage.Condition{IfMatch: etag})
		return err
	}))
	// A failover takes the change back.
	_, err = direct.Driver().(*store).conn.Do(ctx, "HINCRBY", "{app}", "n:"+inner.e.Process(), "-1")
	must(t, err)
	if lost, _, err := inner.e.Losses(ctx); err != nil || lost != 1 {
		t.Errorf("%d changes are lost (%v), want 1", lost, err)
	}
}

// Law: with wait=1 a repeat is acknowledged once a replica has what the first call has written.
func TestLawARepeatWaitsForItsReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	c := newCutter(t, master)
	s, _ := openStore(t, "redis+unix://"+c.socket+"?prefix=app&wake=off&wait=1")
	docs := s.Blobs("docs")
	etag, err := docs.Put(t.Context(), "a", []byte("1"), storage.Condition{})
	must(t, err)
	replica.Stall(t)
	err = c.cut(t, nothing, func() error {
		_, err := docs.Put(t.Context(), "a", []byte("2"), storage.Condition{IfMatch: etag})
		return err
	})
	wantError(t, err, storage.ErrUnavailable, "replicas")
	replica.Resume(t)
}

// After a cut of all connections one call at most meets a broken one, however many there were for calls that take long.
func TestLawCutConnectionsAreLeft(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	redistest.Start(t, redistest.Config{ReplicaOf: master})
	s, _ := openStore(t, master.URL("app")+"&wait=1")
	ctx := t.Context()
	q, docs := s.Queue("jobs"), s.Blobs("docs")
	_, err := docs.Put(ctx, "a", make([]byte, 1<<20), storage.Condition{})
	must(t, err)
	crowd := func() {
		t.Helper()
		done := make(chan error, 16)
		for n := range 16 {
			go func() {
				_, err := q.Receive(ctx, 1, time.Hour)
				if n%2 == 0 {
					_, err = docs.Get(ctx, "a", "")
				}
				done <- err
			}()
		}
		for range 16 {
			must(t, <-done)
		}
	}
	for range 3 {
		crowd()
		master.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		must(t, q.Send(ctx, texts("x"))) // meets the cut, and is repeated
		for n := range 20 {
			if _, err := q.Receive(ctx, 1, time.Hour); err != nil {
				t.Fatalf("call %d after the cut: %v", n, err)
			}
			if _, err := docs.Get(ctx, "a", ""); err != nil {
				t.Fatalf("read %d after the cut: %v", n, err)
			}
		}
	}
}

// While the server stands still, the end of a caller's context ends its wait for a connection of its own, and Close
// waits for no such call.
func TestNobodyWaitsForAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, inner := openStore(t, server.URL("app"))
	server.Stall(t)
	defer server.Resume(t)
	ctx, cancel := context.WithCancel(t.Context())
	began, done := make(chan struct{}, 4), make(chan error, 4)
	for range 4 {
		go func() {
			began <- struct{}{}
			_, err := s.Blobs("docs").Put(ctx, "a", make([]byte, 1<<20), storage.Condition{})
			done <- err
		}()
	}
	for range 4 {
		<-began
	}
	cancel()
	for range 4 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the context", err)
		}
	}
	closed := make(chan struct{})
	go func() { inner.conn.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("Close waits for calls whose context has ended")
	}
	if _, err := inner.conn.Do(t.Context(), "SET", "x", string(make([]byte, 1<<20))); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a large call after Close: got %v", err)
	}
}

// Law: a store that was wiped or replaced answers nothing, reads included.
func TestLawAReadNamesTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("app"))
	put := func(s *storage.Store) {
		_, err := s.Blobs("docs").Put(t.Context(), "a", make([]byte, 1<<20), storage.Condition{})
		must(t, err)
		_, err = s.Blobs("docs").Put(t.Context(), "b", []byte("x"), storage.Condition{})
		must(t, err)
	}
	put(s)
	server.Do(t, "FLUSHALL")
	look := func() {
		t.Helper()
		for _, key := range []string{"a", "b", "c"} {
			_, err := s.Blobs("docs").Get(t.Context(), key, "")
			wantError(t, err, storage.ErrUnavailable, "wiped")
		}
		_, err := s.Table("rows").Get(t.Context(), "p", "k")
		wantError(t, err, storage.ErrUnavailable, "wiped")
		for _, err := range s.Queues(t.Context()) {
			wantError(t, err, storage.ErrUnavailable, "wiped")
		}
	}
	look()
	other, _ := openStore(t, server.URL("app"))
	put(other)
	look()
}
