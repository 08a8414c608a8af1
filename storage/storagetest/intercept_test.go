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
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// onlyCommits, onlyRings and noClaims hide abilities of a store.
type onlyCommits struct{ driver.Store }

func (onlyCommits) Listener() driver.Listener { return nil }
func (onlyCommits) Finder() driver.Finder     { return nil }

type onlyRings struct{ driver.Store }

func (onlyRings) Committer() driver.Committer { return nil }

type noClaims struct{ driver.Store }

func (s noClaims) Listener() driver.Listener { return noClaimsListener{s.Store.Listener()} }

type noClaimsListener struct{ driver.Listener }

func (l noClaimsListener) Listen(topic string) driver.Subscription {
	return noClaimsSubscription{l.Listener.Listen(topic)}
}

type noClaimsSubscription struct{ driver.Subscription }

func (noClaimsSubscription) Claim(int, time.Duration) (<-chan struct{}, func(context.Context) ([]storage.Delivery, time.Time)) {
	return nil, nil
}

func TestInterceptForwardsAbilities(t *testing.T) {
	t.Parallel()
	m := newPlace("").open()
	all := storage.New(m)
	pass := func(_ context.Context, _ storagetest.Op, do func() error) error { return do() }
	for _, x := range []struct {
		name                          string
		s                             *storage.Store
		commits, rings, claims, finds bool
	}{
		{"all", all, true, true, true, true},
		{"none", storagetest.Plain(all), false, false, false, false},
		{"commits", storage.New(onlyCommits{m}), true, false, false, false},
		{"rings, claims and finds", storage.New(onlyRings{m}), false, true, true, true},
		{"commits, rings and finds", storage.New(noClaims{m}), true, true, false, true},
	} {
		for depth, s := range []*storage.Store{x.s, storagetest.Intercept(x.s, pass), storagetest.Intercept(storagetest.NewLink(x.s).Store, pass)} {
			sub := s.Listen("queue")
			_, take, claims := sub.Claim(1, time.Minute)
			if claims {
				take(t.Context())
			}
			sub.Close()
			if s.Atomic() != x.commits || s.Rings() != x.rings || claims != x.claims || s.Finds() != x.finds {
				t.Errorf("%s, %d times wrapped: commits %v, rings %v, claims %v, finds %v; want %v, %v, %v, %v",
					x.name, depth, s.Atomic(), s.Rings(), claims, s.Finds(), x.commits, x.rings, x.claims, x.finds)
			}
			if got, want := s.Props(), x.s.Props(); got != want {
				t.Errorf("%s: Props = %+v; want %+v", x.name, got, want)
			}
			if got, again := s.Driver().Listener(), s.Driver().Listener(); got != again {
				t.Errorf("%s, %d times wrapped: the Listener is another one each time", x.name, depth)
			}
		}
	}
}

// Claimed messages pass through the hook as a receive. If the hook fails it, they stay hidden.
func TestInterceptSeesClaims(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	below := newPlace("").store()
	fail := false
	s := storagetest.Intercept(below, func(ctx context.Context, op storagetest.Op, do func() error) error {
		if err := calls.Hook(ctx, op, do); err != nil || !fail {
			return err
		}
		return op.Fail(storage.ErrUnavailable)
	})
	sub := s.Listen("queue")
	defer sub.Close()
	for _, fails := range []bool{false, true} {
		_, take, ok := sub.Claim(1, time.Hour)
		if !ok {
			t.Fatal("nothing can be claimed")
		}
		if err := below.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
		fail = fails
		got, _ := take(t.Context())
		if want := map[bool]int{false: 1, true: 0}[fails]; len(got) != want {
			t.Errorf("the hook fails: %v; got %d messages, want %d", fails, len(got), want)
		}
		if ds, err := below.Queue("queue").Receive(t.Context(), 1, time.Hour); err != nil || len(ds) != 0 {
			t.Errorf("the hook fails: %v; received %d besides, %v; want none", fails, len(ds), err)
		}
	}
	s.Ring("queue")
	if got := calls.Count(); got != 2 || calls.Count("receive") != 2 {
		t.Errorf("%d calls, %d of them receives; want 2, 2", got, calls.Count("receive"))
	}
}

// everyCall makes each call of the ports once.
func everyCall(ctx context.Context, s *storage.Store) {
	q, b, tab := s.Queue("queue"), s.Blobs("container"), s.Table("table")
	_ = q.Send(ctx, []storage.Message{{Body: []byte("one")}, {Body: []byte("two")}})
	ds, _ := q.Receive(ctx, 2, time.Minute)
	for len(ds) < 2 { // whatever the hook did
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
	_ = tab.PutRows(ctx, "p", []storage.RowPut{{Key: "key"}})
	_ = tab.DeleteRows(ctx, "p", []string{"key"})
	_, _ = s.Commit(ctx, storage.Work{Write: &storage.Write{Container: "container", Key: "doc"}})
	_, _ = s.Commit(ctx, storage.Work{})
	if h, err := s.Subscribe(ctx, "topic", func([]byte, int) int { return 1 }); err == nil {
		h.Close()
	}
	_, _ = s.Publish(ctx, "topic", nil, true)
}

var everyOp = []string{
	"1 send queue queue", "2 receive queue queue", "3 extend queue queue", "4 rewrite queue queue", "5 delete queue queue", "6 stats queue queue",
	"7 put blob blob container/key", "8 get blob blob container/key", "9 list blobs container container", "10 delete blob blob container/key",
	"11 put row row table/p/key", "12 get row row table/p/key", "13 query partition table/p", "14 delete row row table/p/key", "15 put rows partition table/p",
	"16 delete rows partition table/p", "17 commit blob container/doc", "18 commit work", "19 subscribe topic topic", "20 publish topic topic",
}

func TestCallsSeesEveryCall(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	everyCall(t.Context(), storagetest.Intercept(newPlace("").store(), calls.Hook))
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
	m := newPlace("").store()
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
	if err := before.Queue("queue").Send(ctx, message); !errors.Is(err, errMine) || count() != 0 {
		t.Errorf("failed before its effect: got %v, %d messages; want %v, 0", err, count(), errMine)
	}
	if err := after.Queue("queue").Send(ctx, message); !errors.Is(err, errMine) || count() != 1 {
		t.Errorf("failed after its effect: got %v, %d messages; want %v, 1", err, count(), errMine)
	}
	if err := twice.Queue("queue").Send(ctx, message); err != nil || count() != 3 {
		t.Errorf("performed twice: got %v, %d messages; want nil, 3", err, count())
	}
	if ds, err := after.Queue("queue").Receive(ctx, 1, time.Minute); !errors.Is(err, errMine) || len(ds) != 0 || count() != 2 {
		t.Errorf("a lost answer: got %d deliveries, %v, %d left; want 0, %v, 2", len(ds), err, count(), errMine)
	}
	etag, err := after.Blobs("container").Put(ctx, "key", nil, storage.Condition{})
	if _, found := m.Blobs("container").Get(ctx, "key", ""); !errors.Is(err, errMine) || etag != "" || found != nil {
		t.Errorf("a lost put: got ETag %q, %v, then %v; want none, %v, then the blob", etag, err, found, errMine)
	}
	for name, x := range map[string]struct {
		s    *storage.Store
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
	for range after.Blobs("container").List(ctx, "") { // a loop that ends early gets no error
		break
	}
}

// A hook fails what is published, loses it without an error, or lets nothing be received.
func TestHookLosesPublications(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	below := newPlace("").store()
	received := 0
	receiver := func(_ []byte, most int) int {
		received += most
		return 1
	}
	h, err := below.Subscribe(ctx, "topic", receiver)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	errMine := errors.New("mine")
	for name, x := range map[string]struct {
		hook           storagetest.Hook
		received, want int
		err            error
	}{
		"failed before": {func(context.Context, storagetest.Op, func() error) error { return errMine }, 0, 0, errMine},
		"failed after":  {func(_ context.Context, _ storagetest.Op, do func() error) error { _ = do(); return errMine }, 1, 0, errMine},
		"lost":          {func(context.Context, storagetest.Op, func() error) error { return nil }, 0, 0, nil},
		"passed on":     {func(_ context.Context, _ storagetest.Op, do func() error) error { return do() }, 1, 1, nil},
	} {
		s := storagetest.Intercept(below, x.hook)
		received = 0
		if n, err := s.Publish(ctx, "topic", nil, true); n != x.want || !errors.Is(err, x.err) || received != x.received {
			t.Errorf("%s: %d, %v, received %d times; want %d, %v, %d", name, n, err, received, x.want, x.err, x.received)
		}
	}
	deaf := storagetest.Intercept(below, func(context.Context, storagetest.Op, func() error) error { return nil })
	nothing, err := deaf.Subscribe(ctx, "other", receiver)
	if err != nil || nothing.Lost() != nil {
		t.Errorf("a lost Subscribe: %v, error %v", nothing, err)
	}
	nothing.Close()
	if n, err := below.Publish(ctx, "other", nil, false); n != 0 || err != nil {
		t.Errorf("a lost Subscribe subscribes %d, %v", n, err)
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	link := storagetest.NewLink(newPlace("").store())
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
	link.Restore()
	if n := want(nil, nil); n != 2 {
		t.Errorf("%d messages were sent; want 2", n)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); n <= 5; n++ {
			m := newPlace("").store()
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
	m := newPlace("").store()
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
