package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A cutter stands between a store and its server. When it is armed, it takes the next answer away, does something, and
// cuts the connection. So the server has done the call, and the caller doesn't know.
type cutter struct {
	socket string
	armed  atomic.Pointer[func()]
	cuts   atomic.Int32
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
		_, _ = io.Copy(server, from)
		_ = server.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if do := c.armed.Swap(nil); do != nil {
			c.cuts.Add(1)
			(*do)()
			return
		}
		if _, err := from.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut makes a call whose answer is lost.
func (c *cutter) cut(t *testing.T, meanwhile func(), call func() error) error {
	t.Helper()
	before := c.cuts.Load()
	c.armed.Store(&meanwhile)
	err := call()
	if c.cuts.Load() != before+1 {
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

// Law: a connection that is cut under a call is hidden where a repeat does no harm: reads, sends, writes without a
// condition, and guarded writes and units of work, whose repeat is known by its ETag.
func TestLawACutConnectionIsHidden(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	ctx := t.Context()
	docs, q, rows := s.Blobs("docs"), s.Queue("jobs"), s.Table("rows")
	var etag storage.ETag
	put := func(key, body string, cond storage.Condition) func() error {
		return func() (err error) {
			etag, err = docs.Put(ctx, key, []byte(body), cond)
			return err
		}
	}
	must(t, c.cut(t, nothing, put("a", "1", storage.Condition{IfAbsent: true})))
	must(t, c.cut(t, nothing, put("a", "2", storage.Condition{IfMatch: etag})))
	must(t, c.cut(t, nothing, put("a", "3", storage.Condition{IfMatch: etag})))
	last := etag
	must(t, c.cut(t, nothing, put("b", "4", storage.Condition{})))
	must(t, c.cut(t, nothing, func() error {
		got, err := docs.Get(ctx, "a", "")
		if err == nil && string(got.Body) != "3" {
			t.Errorf("document a is %q, want 3", got.Body)
		}
		return err
	}))
	var row storage.ETag
	for _, x := range []string{"1", "2"} {
		must(t, c.cut(t, nothing, func() (err error) {
			row, err = rows.Put(ctx, "p", "k", []byte(x), storage.Condition{IfAbsent: row == "", IfMatch: row})
			return err
		}))
	}
	must(t, c.cut(t, nothing, func() error { _, err := q.Stats(ctx); return err }))
	must(t, c.cut(t, nothing, func() error { return q.Send(ctx, texts("job")) }))
	list, err := direct.Queue("jobs").Receive(ctx, 10, time.Minute)
	must(t, err)
	if len(list) < 1 || len(list) > 2 {
		t.Fatalf("a message whose acknowledgement was lost is there %d times, want once or twice", len(list))
	}

	// The unit of work of a handler: a document, an event, and the end of the message.
	must(t, c.cut(t, nothing, func() error {
		_, err := s.Commit(ctx, storage.Work{
			Write:  &storage.Write{Container: "docs", Key: "a", Body: []byte("5"), If: storage.Condition{IfMatch: last}},
			Send:   []storage.Send{{Queue: "events", Message: texts("event")[0]}},
			Delete: []storage.Claim{{Queue: "jobs", Receipt: list[0].Receipt}},
		})
		return err
	}))
	events, err := direct.Queue("events").Receive(ctx, 10, time.Minute)
	if err != nil || len(events) != 1 {
		t.Errorf("the unit of work has sent %d events (%v), want 1", len(events), err)
	}
}

// Law: a guarded write whose connection was cut, and whose document another writer has written since, is no write that
// surely wasn't done.
func TestLawAnOvertakenWriteIsUnknown(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	ctx := t.Context()
	docs := s.Blobs("docs")
	etag, err := docs.Put(ctx, "a", []byte("1"), storage.Condition{})
	must(t, err)
	other := func() {
		if _, err := direct.Blobs("docs").Put(ctx, "a", []byte("other"), storage.Condition{}); err != nil {
			t.Error(err)
		}
	}
	err = c.cut(t, other, func() error {
		_, err := docs.Put(ctx, "a", []byte("2"), storage.Condition{IfMatch: etag})
		return err
	})
	wantError(t, err, storage.ErrUnavailable, "outcome is unknown")
	if errors.Is(err, storage.ErrPrecondition) {
		t.Errorf("got %v, which says that nothing was written", err)
	}
}

// Calls whose repeat would do harm fail with an unknown outcome, also when they travel with others that are repeated.
func TestCutCallsThatAreNotRepeated(t *testing.T) {
	t.Parallel()
	c, s, direct := cutStore(t)
	ctx := t.Context()
	q := s.Queue("jobs")
	for range 2 { // the server learns each script
		must(t, q.Send(ctx, texts("a")))
		must(t, q.Delete(ctx, []storage.Receipt{receiveOne(t, q, time.Minute).Receipt}))
	}
	must(t, q.Send(ctx, texts("a")))
	d := receiveOne(t, q, time.Minute)
	err := c.cut(t, nothing, func() error { return q.Delete(ctx, []storage.Receipt{d.Receipt}) })
	wantError(t, err, storage.ErrUnavailable)
	if st, err := direct.Queue("jobs").Stats(ctx); err != nil || st.InFlight != 0 {
		t.Errorf("%d messages are in flight (%v), want none", st.InFlight, err)
	}

	// While two calls are under way the others gather, and go together.
	must(t, q.Send(ctx, texts("b", "c")))
	held, err := q.Receive(ctx, 2, time.Minute)
	must(t, err)
	results := make(chan error, 22)
	err = c.cut(t, nothing, func() error {
		for n := range 20 {
			go func() {
				_, err := s.Blobs("docs").Put(ctx, fmt.Sprint(n), []byte("x"), storage.Condition{IfAbsent: true})
				results <- err
			}()
		}
		for _, x := range held {
			go func() {
				err := q.Delete(ctx, []storage.Receipt{x.Receipt})
				if err != nil && !errors.Is(err, storage.ErrUnavailable) {
					results <- fmt.Errorf("delete: %w", err)
				} else {
					results <- nil
				}
			}()
		}
		var all []error
		for range 22 {
			all = append(all, <-results)
		}
		return errors.Join(all...)
	})
	must(t, err)
}
