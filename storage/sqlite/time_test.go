package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// virtual runs f with a store under virtual time.
func virtual(t *testing.T, f func(t *testing.T, s *store)) {
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), path+"?wake=off")
		if err != nil {
			t.Fatal(err)
		}
		f(t, s.Driver().(*store))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestVisibilityVirtual(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		q := s.Queue("queue")
		ctx := t.Context()
		begin := time.Now()
		if err := q.Send(ctx, []storage.Message{{Body: []byte("later"), Delay: storage.MaxDelay}}); err != nil {
			t.Fatal(err)
		}
		send(t, s, "queue", "now")
		d := receive(t, s, "queue", 10)
		if len(d) != 1 || string(d[0].Body) != "now" || !d[0].SentAt.Equal(begin) {
			t.Fatalf("received %v", d)
		}
		if st, err := q.Stats(ctx); err != nil || st != (storage.Stats{InFlight: 1, Delayed: 1}) {
			t.Errorf("stats %+v, %v", st, err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		if got := receive(t, s, "queue", 10); len(got) != 0 {
			t.Errorf("received %d too early", len(got))
		}
		time.Sleep(time.Millisecond)
		if st, err := q.Stats(ctx); err != nil || st != (storage.Stats{Ready: 1, Delayed: 1, Oldest: time.Minute}) {
			t.Errorf("stats %+v, %v", st, err)
		}
		again := receive(t, s, "queue", 10)
		if len(again) != 1 || again[0].Deliveries != 2 {
			t.Fatalf("received %v", again)
		}
		time.Sleep(time.Until(begin.Add(storage.MaxDelay)))
		if got := all(t, s, "queue"); !slices.Equal(got, []string{"later", "now"}) {
			t.Errorf("received %q", got)
		}
	})
}

func TestRingsAreOnTime(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		ctx := t.Context()
		q := s.Queue("queue")
		send(t, s, "queue", "before")
		d := receive(t, s, "queue", 10)[0]
		ring, stop := wake(s, "queue")
		begin := time.Now()
		after := func(want time.Duration, what string) {
			t.Helper()
			<-ring
			if got := time.Since(begin); got != want {
				t.Errorf("%s: the ring came after %v; want %v", what, got, want)
			}
			begin = time.Now()
		}
		after(0, "at first")
		if got := receive(t, s, "queue", 10); len(got) != 0 {
			t.Fatalf("received %d", len(got))
		}
		after(time.Minute, "the end of a visibility from before")

		d = receive(t, s, "queue", 10)[0]
		if _, err := q.Extend(ctx, d.Receipt, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		after(5*time.Second, "the end of a shorter visibility")

		d = receive(t, s, "queue", 10)[0]
		if err := q.Rewrite(ctx, d.Receipt, nil, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		after(3*time.Second, "the end of a back-off")

		if err := q.Send(ctx, []storage.Message{{Delay: 10 * time.Second}, {Delay: 2 * time.Second}}); err != nil {
			t.Fatal(err)
		}
		after(2*time.Second, "the nearer of two delays")
		if got := receive(t, s, "queue", 10); len(got) != 2 {
			t.Fatalf("received %d; want 2", len(got))
		}
		after(8*time.Second, "the farther of two delays")

		d = receive(t, s, "queue", 10)[0]
		if _, err := q.Extend(ctx, d.Receipt, 0); err != nil {
			t.Fatal(err)
		}
		after(0, "handed back")
		stop()
		stop()
		if n := s.rings.Queues(); n != 0 {
			t.Errorf("%d queues are watched after stop", n)
		}
	})
}

// TestFileShrinks drains a large queue. The file gives the room back, both while nothing else happens and beside
// other work.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]int{"idle": 0, "at work": 100} {
		t.Run(name, func(t *testing.T) { virtual(t, func(t *testing.T, s *store) { shrinks(t, s, work) }) })
	}
}

func shrinks(t *testing.T, s *store, work int) {
	queue := s.Queue("queue")
	send := func(n int) {
		t.Helper()
		if err := queue.Send(t.Context(), slices.Repeat([]storage.Message{{Body: make([]byte, 4000)}}, n)); err != nil {
			t.Fatal(err)
		}
	}
	drain := func() {
		t.Helper()
		for {
			var receipts []storage.Receipt
			for _, d := range receive(t, s, "queue", maxReceive) {
				receipts = append(receipts, d.Receipt)
			}
			if len(receipts) == 0 {
				return
			}
			if err := queue.Delete(t.Context(), receipts); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for range 8 {
		send(1000)
	}
	synctest.Wait()
	full := size()
	drain()
	for range work {
		time.Sleep(100 * time.Millisecond)
		send(1)
		drain()
	}
	if work == 0 {
		time.Sleep(time.Hour)
	}
	synctest.Wait()
	if now := size(); now > full/2 || now > 12<<20 {
		t.Errorf("the file had %d MB and has %d MB; want it to shrink", full>>20, now>>20)
	}
}

// TestLogIsBounded writes without a pause. The log must not grow with what is written.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	for _, kilobytes := range []int{256, 6 << 10} { // the larger take as long to write as to copy
		t.Run(fmt.Sprint(kilobytes), func(t *testing.T) { logIsBounded(t, kilobytes<<10) })
	}
}

func logIsBounded(t *testing.T, size int) {
	s := openTest(t, "?wake=off&sync=normal")
	body := make([]byte, size)
	n := 360 << 20 / size
	var most int64
	for i := range n {
		if _, err := s.Blobs("docs").Put(t.Context(), fmt.Sprint(i%16), body, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	t.Logf("%d MB written, the log had at most %d MB", n*size>>20, most>>20)
	if most > 80<<20 {
		t.Errorf("the log has grown to %d MB", most>>20)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the log is there after Close (%v)", err)
	}
}

// TestMigrations checks that a file is marked, and that opening it again changes nothing.
func TestMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := openAt(t, path, "")
	send(t, s, "queue", "body")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look := func() (id, version, tables int64) {
		t.Helper()
		c, err := engine.Connect(path, engine.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for sql, v := range map[string]*int64{
			"PRAGMA application_id":              &id,
			"PRAGMA user_version":                &version,
			"SELECT count(*) FROM sqlite_schema": &tables,
		} {
			if *v, err = c.OneInt(sql); err != nil {
				t.Fatal(err)
			}
		}
		return id, version, tables
	}
	id, version, tables := look()
	if id != applicationID || version != int64(len(migrations)) {
		t.Errorf("the file has mark %#x, version %d", id, version)
	}
	s = openAt(t, path, "")
	if got := all(t, s, "queue"); !slices.Equal(got, []string{"body"}) {
		t.Errorf("after opening again: %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if id2, version2, tables2 := look(); id2 != id || version2 != version || tables2 != tables {
		t.Errorf("opening again changed mark, version, tables from %d, %d, %d to %d, %d, %d", id, version, tables, id2, version2, tables2)
	}
}

// TestIdleIsCheap polls and watches five queues, and counts how often the writer works in a minute.
func TestIdleIsCheap(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		var stops []func()
		looks := 0
		for i := range 5 {
			name := fmt.Sprintf("queue-%d", i)
			ring, stop := wake(s, name)
			stops = append(stops, stop)
			end := make(chan struct{})
			stops = append(stops, func() { close(end) })
			go func() {
				for {
					select {
					case <-end:
						return
					case <-ring:
					case <-time.After(s.Props().PollInterval):
					}
					s.write(&engine.Op{Ctx: t.Context(), Relaxed: true}, func(w *tx) error {
						looks++
						_, err := w.claim(name, 32, time.Minute)
						return err
					})
				}
			}()
		}
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if looks > 310 {
			t.Errorf("%d looks in a minute; want about 300", looks)
		}
		for _, stop := range stops {
			stop()
		}
		synctest.Wait()
	})
}

// BenchmarkEmptyReceive measures the cost of each poll of an idle consumer.
func BenchmarkEmptyReceive(b *testing.B) {
	s := openTest(b, "")
	q := s.Queue("queue")
	if err := q.Send(b.Context(), text("body")); err != nil {
		b.Fatal(err)
	}
	if _, err := q.Receive(b.Context(), 1, time.Hour); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got, err := q.Receive(b.Context(), 32, time.Minute); err != nil || len(got) != 0 {
			b.Fatal(len(got), err)
		}
	}
}
