package storagetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// onlyCommits and onlyWakes hide one ability of a store.
type onlyCommits struct {
	storage.Store
	storage.Committer
}
type onlyWakes struct {
	storage.Store
	storage.Waker
}

func TestInterceptForwardsAbilities(t *testing.T) {
	t.Parallel()
	m := newPlace("").open()
	plain := storagetest.Plain(m)
	pass := func(_ context.Context, _ storagetest.Op, do func() error) error { return do() }
	for _, x := range []struct {
		name                            string
		s                               storage.Store
		commits, wakes, batches, awaits bool
	}{
		{"all", m, true, true, true, true},
		{"none", plain, false, false, false, false},
		{"commits", onlyCommits{plain, m}, true, false, false, false},
		{"wakes", onlyWakes{plain, m}, false, true, false, false},
	} {
		for depth, s := range []storage.Store{x.s, storagetest.Intercept(x.s, pass), storagetest.Intercept(storagetest.NewLink(x.s), pass)} {
			_, commits := storage.As[storage.Committer](s)
			_, wakes := storage.As[storage.Waker](s)
			_, batches := s.Table("table").(storage.BatchTable)
			_, awaits := s.Queue("queue").(storage.Awaiter)
			if commits != x.commits || wakes != x.wakes || batches != x.batches || awaits != x.awaits {
				t.Errorf("%s, %d times wrapped: commits %v, wakes %v, batches %v, awaits %v; want %v, %v, %v, %v",
					x.name, depth, commits, wakes, batches, awaits, x.commits, x.wakes, x.batches, x.awaits)
			}
			if got, want := s.Props(), x.s.Props(); got != want {
				t.Errorf("%s: Props = %+v; want %+v", x.name, got, want)
			}
		}
	}
	if plain.Props().Atomic {
		t.Error("Plain says Atomic")
	}
}

// everyCall makes each call of the ports once.
func everyCall(ctx context.Context, s storage.Store) {
	q, b, tab := s.Queue("queue"), s.Blobs("container"), s.Table("table")
	_ = q.Send(ctx, []storage.Message{{Body: []byte("one")}, {Body: []byte("two")}})
	ds, _ := q.Receive(ctx, 2, time.Minute)
	for len(ds) < 2 { // whatever a hook has made of it
		ds = append(ds, storage.Delivery{Receipt: "none"})
	}
	_, _ = q.Extend(ctx, ds[0].Receipt, time.Minute)
	_ = q.Rewrite(ctx, ds[1].Receipt, nil, 0)
	_ = q.Delete(ctx, []storage.Receipt{ds[1].Receipt})
	_, _ = q.Stats(ctx)
	_, _ = b.Put(ctx, "key", []byte("body"), storage.Condition{})
	_, _ = b.Get(ctx, "key", "")
	for range b.List(ctx, "") {
	}
	_ = b.Delete(ctx, "key", storage.Condition{})
	_, _ = tab.Put(ctx, "p", "key", nil, storage.Condition{})
	_, _ = tab.Get(ctx, "p", "key")
	for range tab.Query(ctx, "p", storage.RowRange{}) {
	}
	_ = tab.Delete(ctx, "p", "key", storage.Condition{})
	_ = storage.PutRows(ctx, tab, "p", []storage.RowPut{{Key: "key"}})
	_, _ = storage.Commit(ctx, s, storage.Work{Write: &storage.Write{Container: "container", Key: "doc"}})
	_, _ = storage.Commit(ctx, s, storage.Work{})
}

var everyOp = []string{
	"1 send queue queue", "2 receive queue queue", "3 extend queue queue", "4 rewrite queue queue", "5 delete queue queue", "6 stats queue queue",
	"7 put blob blob container/key", "8 get blob blob container/key", "9 list blobs container container", "10 delete blob blob container/key",
	"11 put row row table/p/key", "12 get row row table/p/key", "13 query partition table/p", "14 delete row row table/p/key", "15 put rows partition table/p",
	"16 commit blob container/doc", "17 commit work",
}

func TestCallsSeesEveryCall(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	everyCall(t.Context(), storagetest.Intercept(newPlace("").open(), calls.Hook))
	var got []string
	for _, op := range calls.Ops() {
		got = append(got, fmt.Sprint(op.Seq, " ", op.Name, " ", op.Resource))
	}
	if !slices.Equal(got, everyOp) {
		t.Errorf("got %q; want %q", got, everyOp)
	}
	if n, m := calls.Count(), calls.Count("commit", "send"); n != len(everyOp) || m != 3 {
		t.Errorf("Count() = %d, Count(commit, send) = %d; want %d, 3", n, m, len(everyOp))
	}
}

func TestHookFailsCalls(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	errMine := errors.New("mine")
	m := newPlace("").open()
	before := storagetest.Intercept(m, func(context.Context, storagetest.Op, func() error) error { return errMine })
	after := storagetest.Intercept(m, func(_ context.Context, _ storagetest.Op, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		return errMine
	})
	twice := storagetest.Intercept(m, func(_ context.Context, _ storagetest.Op, do func() error) error {
		_ = do()
		return do()
	})
	message := []storage.Message{{Body: []byte("body")}}
	count := func() int64 {
		st, err := m.Queue("queue").Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return st.Ready
	}
	if err := before.Queue("queue").Send(ctx, message); err != errMine || count() != 0 {
		t.Errorf("failed before its effect: got %v, %d messages; want %v, 0", err, count(), errMine)
	}
	if err := after.Queue("queue").Send(ctx, message); err != errMine || count() != 1 {
		t.Errorf("failed after its effect: got %v, %d messages; want %v, 1", err, count(), errMine)
	}
	if err := twice.Queue("queue").Send(ctx, message); err != nil || count() != 3 {
		t.Errorf("performed twice: got %v, %d messages; want nil, 3", err, count())
	}
	if ds, err := after.Queue("queue").Receive(ctx, 1, time.Minute); err != errMine || len(ds) != 0 || count() != 2 {
		t.Errorf("a lost answer: got %d deliveries, %v, %d left; want 0, %v, 2", len(ds), err, count(), errMine)
	}
	etag, err := after.Blobs("container").Put(ctx, "key", nil, storage.Condition{})
	if _, found := m.Blobs("container").Get(ctx, "key", ""); err != errMine || etag != "" || found != nil {
		t.Errorf("a lost put: got ETag %q, %v, then %v; want none, %v, then the blob", etag, err, found, errMine)
	}
	for name, x := range map[string]struct {
		s    storage.Store
		want int
	}{"before": {before, 0}, "after": {after, 1}} {
		items, failed := 0, 0
		for _, err := range x.s.Blobs("container").List(ctx, "") {
			if err != nil {
				failed++
			} else {
				items++
			}
		}
		if items != x.want || failed != 1 {
			t.Errorf("listing failed %s: %d items, %d errors; want %d, 1", name, items, failed, x.want)
		}
	}
	for range after.Blobs("container").List(ctx, "") { // a loop that was left gets no error
		break
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	link := storagetest.NewLink(newPlace("").open())
	want := func(sends, counts error) (ready int64) {
		t.Helper()
		sent := link.Queue("queue").Send(t.Context(), []storage.Message{{}})
		st, counted := link.Queue("queue").Stats(t.Context())
		if !errors.Is(sent, sends) || !errors.Is(counted, counts) {
			t.Errorf("Send: %v, Stats: %v; want %v, %v", sent, counted, sends, counts)
		}
		return st.Ready
	}
	want(nil, nil)
	link.Cut()
	want(storage.ErrUnavailable, storage.ErrUnavailable)
	link.Cut("query", "send")
	want(storage.ErrUnavailable, nil)
	link.Mend()
	if n := want(nil, nil); n != 2 {
		t.Errorf("%d messages were sent; want 2", n)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); n <= 5; n++ {
			m := newPlace("").open()
			s, fuse := storagetest.Crash(m, n, moment)
			sent := int64(0)
			for i := range 4 {
				err := s.Queue("queue").Send(ctx, []storage.Message{{}})
				if want := int64(i) < n-1; (err == nil) != want || err != nil && !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("%v, n = %d: call %d: %v", moment, n, i+1, err)
				}
				if err == nil {
					sent++
				}
			}
			if want := n <= 4; fuse.Fired() != want {
				t.Errorf("%v, n = %d: Fired = %v; want %v", moment, n, fuse.Fired(), want)
			}
			want := min(n-1, 4)
			if moment == storagetest.AfterEffect {
				want = min(n, 4)
			}
			if st, _ := m.Queue("queue").Stats(ctx); st.Ready != want || sent != min(n-1, 4) {
				t.Errorf("%v, n = %d: %d messages of which %d acknowledged; want %d, %d", moment, n, st.Ready, sent, want, min(n-1, 4))
			}
		}
	}
}

func TestCrashTakesCallsUnderWay(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := newPlace("").open()
	entered, release := make(chan struct{}), make(chan struct{})
	slow := storagetest.Intercept(m, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "send" {
			close(entered)
			<-release
		}
		return do()
	})
	s, fuse := storagetest.Crash(slow, 2, storagetest.BeforeEffect)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Queue("queue").Send(ctx, []storage.Message{{}}); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("the call under way: %v; want %v", err, storage.ErrUnavailable)
		}
	})
	<-entered
	if _, err := s.Queue("queue").Stats(ctx); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("the last call: %v; want %v", err, storage.ErrUnavailable)
	}
	<-fuse.C()
	close(release)
	wg.Wait()
}
