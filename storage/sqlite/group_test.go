package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// hold keeps the writer busy until the returned function is called, so that ops that come meanwhile are one group.
func hold(t *testing.T, s *store) (release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	go s.write(&op{ctx: context.Background(), run: func(*writer) error {
		close(began)
		<-end
		return nil
	}})
	<-began
	return sync.OnceFunc(func() { close(end) })
}

// enqueue runs f in a goroutine and returns once its op waits for the writer.
func enqueue(s *store, f func() error) <-chan error {
	n := len(s.ops)
	done := make(chan error, 1)
	go func() { done <- f() }()
	for len(s.ops) == n {
		runtime.Gosched()
	}
	return done
}

func TestGroupIsolation(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
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
		waiting = append(waiting, enqueue(s, step.do))
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
	s := openTest(t, "?wake=off")
	send(t, s, "queue", "a")
	pragma(t, s, "PRAGMA max_page_count = 100")
	release := hold(t, s)
	b := enqueue(s, func() error { return s.Queue("queue").Send(t.Context(), text("b")) })
	large := enqueue(s, func() error {
		_, err := s.Blobs("docs").Put(t.Context(), "large", make([]byte, 1<<20), storage.Condition{})
		return err
	})
	c := enqueue(s, func() error { return s.Queue("new-queue").Send(t.Context(), text("c")) })
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
	tool, err := openConn(s.path, openCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.close()
	if err := tool.exec("BEGIN IMMEDIATE"); err != nil {
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
	if err := tool.exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	send(t, s, "queue", "b")
	if got, want := all(t, s, "queue"), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("queue has %q; want %q", got, want)
	}
}

func TestCloseFinishesWhatItTook(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	release := hold(t, s)
	var waiting []<-chan error
	for i := range 20 {
		waiting = append(waiting, enqueue(s, func() error {
			return s.Queue("queue").Send(context.Background(), text(fmt.Sprint(i)))
		}))
	}
	closed := make(chan error, 2)
	for range 2 {
		go func() { closed <- s.Close() }()
	}
	<-s.closing
	if err := s.Queue("queue").Send(t.Context(), text("late")); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("send while closing: got error %v; want unavailable", err)
	}
	release()
	if err := errors.Join(<-closed, <-closed); err != nil {
		t.Errorf("close: %v", err)
	}
	done := 0
	for _, w := range waiting {
		if err := <-w; err == nil {
			done++
		} else if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got error %v; want none or unavailable", err)
		}
	}
	if got := all(t, openAt(t, s.path, ""), "queue"); len(got) != done {
		t.Errorf("%d messages; want the %d acknowledged", len(got), done)
	}
}

// TestRelaxed checks which groups wait for the disk.
func TestRelaxed(t *testing.T) {
	t.Parallel()
	modes := func(query string) (got []string) {
		s := openTest(t, query)
		see := func(o *op) {
			o.ctx = t.Context()
			o.run = func(w *writer) error {
				mode, err := w.c.one("PRAGMA synchronous")
				got = append(got, mode)
				return err
			}
			if err := s.write(o); err != nil {
				t.Error(err)
			}
		}
		see(&op{})
		see(&op{relaxed: true})
		see(&op{late: true})
		see(&op{})
		release := hold(t, s)
		a := enqueue(s, func() error { see(&op{relaxed: true}); return nil })
		b := enqueue(s, func() error { return s.Queue("queue").Send(t.Context(), text("a")) })
		release()
		if err := errors.Join(<-a, <-b); err != nil {
			t.Error(err)
		}
		return got
	}
	const normal, full = "1", "2"
	if got, want := modes(""), []string{full, normal, normal, full, full}; !slices.Equal(got, want) {
		t.Errorf("synchronous is %v; want %v", got, want)
	}
	if got, want := modes("?sync=normal"), []string{normal, normal, normal, normal, normal}; !slices.Equal(got, want) {
		t.Errorf("with sync=normal, synchronous is %v; want %v", got, want)
	}
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
		s.write(&op{ctx: t.Context(), run: func(w *writer) (err error) {
			n, err = w.c.oneInt("SELECT count(*) FROM names")
			return err
		}})
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
		tool, err := openConn(s.path, openCreate)
		if err != nil {
			t.Fatal(err)
		}
		defer tool.close()
		if err := tool.exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = s.Queue("queue").Send(t.Context(), text("never"))
		wantError(t, err, storage.ErrUnavailable, "another process holds the file", "10s")
		if waited := time.Since(begin); waited < lockWait || waited > lockWait+time.Second {
			t.Errorf("waited %v; want %v", waited, lockWait)
		}
	})
}
