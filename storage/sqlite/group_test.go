package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// hold keeps the writer busy until the returned function is called, so that ops that come meanwhile are one group.
func hold(t *testing.T, s *store) (release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	go s.write(&engine.Op{Ctx: context.Background()}, func(*tx) error {
		close(began)
		<-end
		return nil
	})
	<-began
	return sync.OnceFunc(func() { close(end) })
}

// enqueue runs f in a goroutine of a virtual test, and returns once its op waits for the writer.
func enqueue(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

func TestGroupIsolation(t *testing.T) {
	t.Parallel()
	virtual(t, groupIsolation)
}

func groupIsolation(t *testing.T, s *store) {
	ctx := t.Context()
	docs, rows := s.Blobs("docs"), s.Table("rows")
	etag, err := docs.Put(ctx, "taken", []byte("1"), storage.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(ctx)
	enough := errors.New("enough")

	release := hold(t, s)
	steps := []struct {
		name string
		do   func() error
		want error
	}{
		{"a send", func() error { return s.Queue("queue").Send(ctx, text("a")) }, nil},
		{"blob exists", func() error {
			_, err := docs.Put(ctx, "taken", nil, storage.Condition{IfAbsent: true})
			return err
		}, storage.ErrExists},
		{"work with a lost race", func() error {
			_, err := s.Commit(ctx, storage.Work{
				Write: &storage.Write{Container: "docs", Key: "taken", If: storage.Condition{IfMatch: "0000000000000000"}},
				Send:  []storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("never")}}},
			})
			return err
		}, storage.ErrPrecondition},
		{"work", func() error {
			_, err := s.Commit(ctx, storage.Work{
				Write: &storage.Write{Container: "docs", Key: "taken", Body: []byte("2"), If: storage.Condition{IfMatch: etag}},
				Send:  []storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("b")}}},
			})
			return err
		}, nil},
		{"the same again", func() error {
			_, err := s.Commit(ctx, storage.Work{
				Write: &storage.Write{Container: "docs", Key: "taken", Body: []byte("3"), If: storage.Condition{IfMatch: etag}},
				Send:  []storage.Send{{Queue: "queue", Message: storage.Message{Body: []byte("never")}}},
			})
			return err
		}, storage.ErrPrecondition},
		{"stale receipt", func() error { return s.Queue("queue").Rewrite(ctx, "1.1", nil, 0) }, storage.ErrReceiptStale},
		{"no such row", func() error { return rows.Delete(ctx, "p", "k", storage.Condition{}) }, storage.ErrNotFound},
		{"row", func() error { _, err := rows.Put(ctx, "p", "k", nil, storage.Condition{}); return err }, nil},
		{"given up", func() error { return s.Queue("queue").Send(cancelled, text("never")) }, enough},
		{"a last send", func() error { return s.Queue("queue").Send(ctx, text("c")) }, nil},
	}
	var waiting []<-chan error
	for _, step := range steps {
		waiting = append(waiting, enqueue(step.do))
	}
	cancel(enough)
	for i, step := range steps {
		if step.want == enough {
			// It must not wait for the writer, which is held.
			if err := <-waiting[i]; !errors.Is(err, enough) {
				t.Errorf("%s: got error %v; want %v", step.name, err, enough)
			}
		}
	}
	release()
	for i, step := range steps {
		if step.want == enough {
			continue
		}
		if err := <-waiting[i]; !errors.Is(err, step.want) {
			t.Errorf("%s: got error %v; want %v", step.name, err, step.want)
		}
	}
	if got, want := all(t, s, "queue"), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("queue has %q; want %q", got, want)
	}
	if b, err := docs.Get(ctx, "taken", ""); err != nil || string(b.Body) != "2" {
		t.Errorf("blob is %q, %v; want 2", b.Body, err)
	}
}

// TestGroupTooLarge has one op in a group that can't be stored. The other ops are.
func TestGroupTooLarge(t *testing.T) {
	t.Parallel()
	virtual(t, groupTooLarge)
}

func groupTooLarge(t *testing.T, s *store) {
	send(t, s, "queue", "a")
	pragma(t, s, "PRAGMA max_page_count = 100")
	release := hold(t, s)
	b := enqueue(func() error { return s.Queue("queue").Send(t.Context(), text("b")) })
	large := enqueue(func() error {
		_, err := s.Blobs("docs").Put(t.Context(), "large", make([]byte, 1<<20), storage.Condition{})
		return err
	})
	c := enqueue(func() error { return s.Queue("new-queue").Send(t.Context(), text("c")) })
	release()
	if err := errors.Join(<-b, <-c); err != nil {
		t.Error(err)
	}
	wantError(t, <-large, storage.ErrUnavailable, "disk is full")
	if got := fmt.Sprint(all(t, s, "queue"), all(t, s, "new-queue")); got != "[a b] [c]" {
		t.Errorf("queues have %s; want [a b] [c]", got)
	}
	if _, err := s.Blobs("docs").Get(t.Context(), "large", ""); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get: got error %v; want not found", err)
	}
}

// TestAnotherHoldsTheFile has a database tool left open in a transaction. Callers that won't wait leave at once.
func TestAnotherHoldsTheFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	send(t, s, "queue", "a")
	tool, err := engine.Connect(s.path, engine.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if err := tool.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Queue("queue").Send(ctx, text("never")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v; want the deadline", err)
	}
	if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st.Ready != 1 {
		t.Errorf("stats: %+v, %v; readers must not wait", st, err)
	}
	if err := tool.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	send(t, s, "queue", "b")
	if got, want := all(t, s, "queue"), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("queue has %q; want %q", got, want)
	}
}

// A commit waits for the disk where a caller was promised something. Claims and extensions promise nothing, and a
// deletion is synced beside.
func TestWhatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		ctx, q := t.Context(), s.Queue("queue")
		send(t, s, "queue", "a", "b", "c", "d")
		d := receive(t, s, "queue", 4)
		for name, c := range map[string]struct {
			call  func() error
			waits bool
		}{
			"send":    {func() error { return q.Send(ctx, text("e")) }, true},
			"receive": {func() error { _, err := q.Receive(ctx, 1, time.Minute); return err }, false},
			"extend":  {func() error { _, err := q.Extend(ctx, d[0].Receipt, time.Minute); return err }, false},
			"rewrite": {func() error { return q.Rewrite(ctx, d[1].Receipt, nil, 0) }, true},
			"delete":  {func() error { return q.Delete(ctx, []storage.Receipt{d[2].Receipt}) }, false},
			"blob":    {func() error { _, err := s.Blobs("docs").Put(ctx, "key", nil, storage.Condition{}); return err }, true},
			"row":     {func() error { _, err := s.Table("rows").Put(ctx, "p", "k", nil, storage.Condition{}); return err }, true},
			"commit": {func() error {
				_, err := s.Commit(ctx, storage.Work{Delete: []storage.Claim{{Queue: "queue", Receipt: d[3].Receipt}}})
				return err
			}, true},
		} {
			var mode string
			look := func() {
				err := s.write(&engine.Op{Ctx: ctx, Relaxed: true}, func(w *tx) (err error) {
					mode, err = w.c.One("PRAGMA synchronous")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
			together(t, s, func() {
				if err := c.call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}, look)
			const full = "2"
			if waits := mode == full; waits != c.waits {
				t.Errorf("%s waits for the disk: %v; want %v", name, waits, c.waits)
			}
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	// One name for a queue, a container and a table is three things. A read makes none of them.
	if _, err := s.Blobs("same").Get(t.Context(), "key", ""); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Blobs("same").Put(t.Context(), "key", nil, storage.Condition{IfMatch: "0123456789abcdef"}); !errors.Is(err, storage.ErrPrecondition) {
		t.Error(err)
	}
	if got := receive(t, s, "same", 1); len(got) != 0 {
		t.Errorf("received %d", len(got))
	}
	count := func() (n int64) {
		s.write(&engine.Op{Ctx: t.Context()}, func(w *tx) (err error) {
			n, err = w.c.OneInt("SELECT count(*) FROM names")
			return err
		})
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d names; want none", n)
	}
	send(t, s, "same", "body")
	if _, err := s.Table("same").Put(t.Context(), "p", "k", nil, storage.Condition{}); err != nil {
		t.Error(err)
	}
	if n := count(); n != 2 {
		t.Errorf("%d names; want 2", n)
	}
}

// TestAnotherKeepsTheFile checks the error that an operator reads when another process locks the file for longer than
// the store waits.
func TestAnotherKeepsTheFile(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		tool, err := engine.Connect(s.path, engine.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer tool.Close()
		if err := tool.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = s.Queue("queue").Send(t.Context(), text("never"))
		wantError(t, err, storage.ErrUnavailable, "another process holds the file", "10s")
		if waited := time.Since(begin); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("waited %v; want 10s", waited)
		}
	})
}
