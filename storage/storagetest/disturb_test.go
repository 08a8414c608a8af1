package storagetest_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestDisturbWithoutASchedule(t *testing.T) {
	t.Parallel()
	cfg := onSQLite(func(s *storage.Store) *storage.Store {
		s, _ = storagetest.Disturb(s, storagetest.Disturbance{})
		return s
	})
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Claims = true, true, true, true
	storagetest.Run(t, cfg)
}

// only is a schedule with a fault for the calls of one name.
func only(name string, f storagetest.Fault) func(storagetest.Op) storagetest.Fault {
	return func(op storagetest.Op) storagetest.Fault {
		if op.Name == name {
			return f
		}
		return storagetest.NoFault
	}
}

// ready counts the receivable messages.
func ready(t *testing.T, s *storage.Store) int {
	t.Helper()
	st, err := s.Queue("jobs").Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Ready)
}

// The cases have each fault on a send: the caller's error, the messages in the queue, and the time it took.
func TestFaultsOfASend(t *testing.T) {
	t.Parallel()
	for fault, want := range map[storagetest.Fault]struct {
		err   error
		ready int
		took  time.Duration
		dead  bool
	}{
		storagetest.NoFault:     {nil, 1, 0, false},
		storagetest.FailBefore:  {storage.ErrUnavailable, 0, 0, false},
		storagetest.FailAfter:   {storage.ErrUnavailable, 1, 0, false},
		storagetest.Throttle:    {storage.ErrThrottled, 0, 0, false},
		storagetest.DelayBefore: {nil, 1, time.Minute, false},
		storagetest.DelayAfter:  {nil, 1, time.Minute, false},
		storagetest.Repeat:      {nil, 2, 0, false},
		storagetest.Release:     {nil, 1, 0, false}, // doesn't fit
		storagetest.Partition:   {storage.ErrUnavailable, 0, 0, false},
		storagetest.CrashBefore: {storage.ErrUnavailable, 0, 0, true},
		storagetest.CrashAfter:  {storage.ErrUnavailable, 1, 0, true},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			disturbedStore(t, func(t *testing.T, below *storage.Store) {
				s, fuse := storagetest.Disturb(below, storagetest.Disturbance{Schedule: only("send", fault)})
				began := time.Now()
				err := s.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte("a")}})
				if !errors.Is(err, want.err) {
					t.Errorf("got %v, want %v", err, want.err)
				}
				if got := time.Since(began); got != want.took {
					t.Errorf("it took %v, want %v", got, want.took)
				}
				if got := ready(t, below); got != want.ready {
					t.Errorf("%d messages, want %d", got, want.ready)
				}
				if fuse.Fired() != want.dead {
					t.Errorf("dead: %v, want %v", fuse.Fired(), want.dead)
				}
				_, err = s.Queue("jobs").Stats(t.Context())
				if gone := fault == storagetest.Partition || want.dead; (err != nil) != gone {
					t.Errorf("the next call: got %v, want it to fail: %v", err, gone)
				}
				time.Sleep(2 * time.Minute)
				if _, err = s.Queue("jobs").Stats(t.Context()); (err != nil) != want.dead {
					t.Errorf("a call after the outage: got %v, want it to fail: %v", err, want.dead)
				}
			})
		})
	}
}

// disturbedStore runs a test in virtual time, on a store to disturb.
func disturbedStore(t *testing.T, test func(t *testing.T, below *storage.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		test(t, s)
	})
}

// Other processes can receive a message at once after a receive under Release. The last receiver owns it.
func TestReleaseOfAReceive(t *testing.T) {
	t.Parallel()
	disturbedStore(t, func(t *testing.T, below *storage.Store) {
		s, _ := storagetest.Disturb(below, storagetest.Disturbance{Schedule: only("receive", storagetest.Release)})
		mine, other := s.Queue("jobs"), below.Queue("jobs")
		for _, taken := range []bool{false, true} {
			if err := mine.Send(t.Context(), []storage.Message{{Body: []byte("a")}}); err != nil {
				t.Fatal(err)
			}
			got, err := mine.Receive(t.Context(), 1, time.Hour)
			if err != nil || len(got) != 1 {
				t.Fatalf("got %d messages, %v", len(got), err)
			}
			if taken {
				again, err := other.Receive(t.Context(), 1, time.Hour)
				if err != nil || len(again) != 1 || again[0].Deliveries != got[0].Deliveries+1 {
					t.Fatalf("got %+v, %v; want the same message once more", again, err)
				}
			}
			if err := mine.Delete(t.Context(), []storage.Receipt{got[0].Receipt}); errors.Is(err, storage.ErrReceiptStale) != taken {
				t.Errorf("taken: %v; delete: %v", taken, err)
			}
		}
	})
}

// Under Release the receipts of a call are dead when it reaches the store. So are a commit's, which writes and
// sends all the same.
func TestReleaseOfReceipts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"extend", "rewrite", "delete", "commit"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disturbedStore(t, func(t *testing.T, below *storage.Store) {
				s, _ := storagetest.Disturb(below, storagetest.Disturbance{Schedule: only(name, storagetest.Release)})
				q := s.Queue("jobs")
				if err := q.Send(t.Context(), []storage.Message{{Body: []byte("a")}}); err != nil {
					t.Fatal(err)
				}
				got, err := q.Receive(t.Context(), 1, time.Hour)
				if err != nil || len(got) != 1 {
					t.Fatalf("got %d messages, %v", len(got), err)
				}
				switch receipt := got[0].Receipt; name {
				case "extend":
					_, err = q.Extend(t.Context(), receipt, time.Hour)
				case "rewrite":
					err = q.Rewrite(t.Context(), receipt, []byte("b"), 0)
				case "delete":
					err = q.Delete(t.Context(), []storage.Receipt{receipt})
				case "commit":
					work := storage.Work{
						Write:  &storage.Write{Container: "docs", Key: "k", Body: []byte("v")},
						Delete: []storage.Claim{{Queue: "jobs", Receipt: receipt}},
					}
					var done storage.Committed
					if done, err = s.Commit(t.Context(), work); err == nil && slices.Equal(done.Stale, work.Delete) {
						err = storage.ErrReceiptStale
					}
					if _, err := below.Blobs("docs").Get(t.Context(), "k", ""); err != nil {
						t.Error(err)
					}
				}
				if !errors.Is(err, storage.ErrReceiptStale) {
					t.Errorf("got %v, want a stale receipt", err)
				}
				if n := ready(t, below); n != 1 {
					t.Errorf("%d messages can be received, want 1", n)
				}
			})
		})
	}
}

// Calls under way have an unknown outcome when the process is partitioned or ends.
func TestFaultsOfOthersUnderWay(t *testing.T) {
	t.Parallel()
	for _, fault := range []storagetest.Fault{storagetest.Partition, storagetest.CrashBefore, storagetest.CrashAfter} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			disturbedStore(t, func(t *testing.T, below *storage.Store) {
				s, _ := storagetest.Disturb(below, storagetest.Disturbance{Schedule: func(op storagetest.Op) storagetest.Fault {
					switch op.Name {
					case "send":
						return storagetest.DelayAfter
					case "stats":
						return fault
					}
					return storagetest.NoFault
				}})
				sent := make(chan error)
				go func() { sent <- s.Queue("jobs").Send(context.WithoutCancel(t.Context()), []storage.Message{{}}) }()
				synctest.Wait()
				if _, err := s.Queue("jobs").Stats(t.Context()); err == nil {
					t.Error("the call itself succeeded")
				}
				if err := <-sent; !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("got %v, want an unknown outcome", err)
				}
				if n := ready(t, below); n != 1 {
					t.Errorf("%d messages, want 1", n)
				}
			})
		})
	}
}

// The same seed gives the same faults, in whatever order calls on different resources come. The faults come as
// often as their chances say.
func TestSeeded(t *testing.T) {
	t.Parallel()
	chances := map[storagetest.Fault]float64{storagetest.FailBefore: 0.2, storagetest.Repeat: 0.1, storagetest.CrashAfter: 0.05}
	draw := func(seed uint64, resources ...string) map[string][]storagetest.Fault {
		schedule, got := storagetest.Seeded(seed, chances), map[string][]storagetest.Fault{}
		for range 2000 {
			for _, r := range resources {
				got[r] = append(got[r], schedule(storagetest.Op{Name: "send", Resource: r}))
			}
		}
		return got
	}
	one, two := draw(1, "queue a", "queue b"), draw(1, "queue b", "queue a")
	for _, r := range []string{"queue a", "queue b"} {
		if !slices.Equal(one[r], two[r]) {
			t.Errorf("%s: other faults in another order of calls", r)
		}
	}
	if slices.Equal(one["queue a"], one["queue b"]) || slices.Equal(one["queue a"], draw(2, "queue a")["queue a"]) {
		t.Error("other resources or seeds bring the same faults")
	}
	n := map[storagetest.Fault]float64{}
	for _, f := range one["queue a"] {
		n[f] += 1.0 / 2000
	}
	for _, f := range storagetest.Faults() {
		if got, want := n[f], chances[f]; got < want*0.7 || got > want*1.3 {
			t.Errorf("%s: got %.3f of the calls, want %.3f", f, got, want)
		}
	}
	schedule := storagetest.Seeded(1, map[storagetest.Fault]float64{storagetest.Repeat: 1, storagetest.Release: 1})
	if f := schedule(storagetest.Op{Name: "get blob", Resource: "blob a/b"}); f != storagetest.NoFault {
		t.Errorf("got %s for a call that it doesn't fit", f)
	}
}

// A message that waits is not made receivable early by the fault that releases a call's messages.
func TestReleaseLeavesFoundMessages(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s, _ = storagetest.Disturb(s, storagetest.Disturbance{Schedule: only("delete", storagetest.Release)})
	q := s.Queue("jobs")
	if err := q.Send(t.Context(), []storage.Message{{Body: []byte("x"), Key: "k", Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	ds, err := q.Find(t.Context(), "k")
	if err != nil || len(ds) != 1 {
		t.Fatalf("found %d messages: %v", len(ds), err)
	}
	if err := q.Delete(t.Context(), []storage.Receipt{ds[0].Receipt}); err != nil {
		t.Errorf("delete the message that was found: %v", err)
	}
}
