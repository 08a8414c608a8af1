package values_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

const (
	aDay        = 24 * time.Hour
	forgetEvery = 100 // versions between two times that old rows are forgotten
)

// aged returns a process whose document has so many rows, all past retention, and a function that counts calls since
// then.
func aged(t testing.TB, s *storage.Store, n int) (p *process, calls *storagetest.Calls) {
	t.Helper()
	calls = &storagetest.Calls{}
	cfg := values.Config[Account]{Window: 4, Retention: 10 * aDay}
	p = newProcess(t, storagetest.Intercept(s, calls.Hook), cfg)
	var batch []values.Change[Account]
	for range n {
		batch = append(batch, p.change(newID(), 1))
	}
	p.applied("k", batch...)
	p.applied("k", p.change(newID(), 0)) // the batch is committed now, and its entries leave
	if got := rows(t, s, "k"); got < n-10 {
		t.Fatalf("got %d rows, want about %d", got, n)
	}
	time.Sleep(12 * aDay)
	*calls = storagetest.Calls{}
	return p, calls
}

// settled applies messages until the document's version is just before the next deletion of old rows.
func (p *process) settled() {
	p.t.Helper()
	var batch []values.Change[Account]
	for range (2*forgetEvery - 2 - stored(p.t, p.Store, "k").Version%forgetEvery) % forgetEvery {
		batch = append(batch, p.change(newID(), 0))
	}
	p.applied("k", batch...)
	p.applied("k", p.change(newID(), 0)) // so the batch leaves with this write, not with the one that the test watches
}

// isDelete tells a deletion of one row or of several.
func isDelete(op storagetest.Op) bool { return strings.HasPrefix(op.Name, "delete row") }

// seedOld writes so many rows past retention.
func seedOld(t testing.TB, s *storage.Store, n int) {
	t.Helper()
	puts := make([]storage.RowPut, n)
	for i := range puts {
		puts[i] = storage.RowPut{Key: fmt.Sprintf("%012x-%024x", 1, i), Data: make([]byte, 6)}
	}
	if err := s.Table("accounts-applied").PutRows(t.Context(), "k", puts); err != nil {
		t.Fatal(err)
	}
}

func oldRows(t testing.TB, s *storage.Store) int {
	t.Helper()
	n := 0
	before := fmt.Sprintf("%012x", time.Now().Add(-11*aDay).UnixMilli())
	for _, err := range s.Table("accounts-applied").Query(t.Context(), "k", storage.RowRange{To: before}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Old rows are looked for once in a hundred messages. As many are deleted as leave the window, or more.
func TestForgettingIsAmortised(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p, calls := aged(t, s, 350)
		for range 3 * forgetEvery {
			time.Sleep(time.Millisecond)
			p.applied("k", p.change(newID(), 1))
		}
		worldtest.Want(t, "queries", calls.Count("query"), 3)
		worldtest.Want(t, "old rows", oldRows(t, s), 0)
		for range 3 * forgetEvery {
			time.Sleep(time.Millisecond)
			p.applied("k", p.change(newID(), 1))
		}
		worldtest.Want(t, "queries", calls.Count("query"), 6)
	})
}

// Every process that writes the document deletes old rows, even if it writes for a single message.
func TestForgettingBySome(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		aged(t, s, 150)
		for range forgetEvery {
			p := newProcess(t, s, values.Config[Account]{Window: 4, Retention: 10 * aDay})
			p.applied("k", p.change(newID(), 1))
		}
		worldtest.Want(t, "old rows", oldRows(t, s), 0)
	})
}

// Changes outside of messages count too. Otherwise they could take every turn.
func TestForgettingByUpdates(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p, _ := aged(t, s, 150)
		p.settled()
		if err := p.Accounts.Update(t.Context(), "k", func(v Account) (Account, bool) { return v, true }); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "old rows", oldRows(t, s), 0)
	})
}

// A clock that is ahead deletes nothing that others rely on: rows are judged by the times of messages, too.
func TestForgettingByAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 4, Retention: 10 * aDay})
		var batch []values.Change[Account]
		for range 150 {
			batch = append(batch, p.change(newID(), 1))
		}
		p.applied("k", batch...)
		p.settled()
		time.Sleep(5 * aDay)
		sent := time.Now() // and by then this process's clock is more than a week ahead, as it seems
		time.Sleep(9 * aDay)
		before := oldRows(t, s)
		for i := range 2 * forgetEvery {
			p.applied("k", p.change(worldtest.IDAt(sent, i), 1))
		}
		if got := oldRows(t, s); got < before || got < 100 {
			t.Errorf("got %d old rows, want all %d, and what has left the window since", got, before)
		}
	})
}

// A document in steady use keeps all rows within retention, and never many more.
func TestForgettingInSteadyUse(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 4, Retention: 10 * aDay})
		const every = 3 * time.Hour
		var all []string
		for i := range 30 * 24 / 3 {
			time.Sleep(every)
			all = append(all, worldtest.IDAt(time.Now(), i))
			p.applied("k", p.change(all[i], 1))
		}
		n, within := rows(t, s, "k"), int(10*aDay/every)
		if most := within + int(aDay/every) + forgetEvery; n < within-9 || n > most {
			t.Errorf("got %d rows; want %d to %d", n, within-9, most)
		}
		// Each is still known.
		recent := all[len(all)-within+1:]
		for _, id := range recent {
			p.applied("k", p.change(id, 1))
		}
		worldtest.Want(t, "balance", p.Balance("k"), len(all))
		worldtest.WantErr(t, p.apply("k", p.change(all[0], 1))[0], values.ErrTooOld)
	})
}

// No row is deleted before the document is written, nor after a write that fails.
func TestForgettingComesAfterTheCommit(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p, _ := aged(t, s, 150)
		p.settled()
		at := stored(t, s, "k").Version + 1
		var seen atomic.Int64
		fails := once(writing(s), func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) })
		q := newProcess(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "query" || isDelete(op) {
				seen.Add(1)
				if got := stored(t, s, "k").Version; got != at {
					t.Errorf("%s at version %d, want %d", op.Name, got, at)
				}
			}
			return fails(ctx, op, do)
		}), values.Config[Account]{Window: 4, Retention: 10 * aDay})
		id := newID()
		worldtest.WantErr(t, q.apply("k", q.change(id, 1))[0], storage.ErrUnavailable)
		worldtest.Want(t, "requests to forget for a write that failed", int(seen.Load()), 0)
		q.applied("k", q.change(id, 1))
		worldtest.Want(t, "old rows", oldRows(t, s), 0)
	})
}

// A deletion that fails is no fault of any message. It is left to the next time.
func TestForgettingFails(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"query", "delete row"} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				aged(t, s, 150)
				var down atomic.Bool
				var n atomic.Int64
				p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if strings.HasPrefix(op.Name, failing) && down.Load() {
						n.Add(1)
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				}), values.Config[Account]{Window: 4, Retention: 10 * aDay})
				p.settled()
				before := oldRows(t, s)
				down.Store(true)
				p.applied("k", p.change(newID(), 1))
				worldtest.Want(t, "old rows after a failure", oldRows(t, s), before)
				if got := n.Load(); got == 0 || got > 16 {
					t.Errorf("%d requests failed, want some, but not one for each row", got)
				}
				down.Store(false)
				for range forgetEvery {
					p.applied("k", p.change(newID(), 1))
				}
				worldtest.Want(t, "old rows at the end", oldRows(t, s), 0)
			})
		})
	}
}

// After a crash anywhere on the way old messages are still refused as too old, and young ones are known.
func TestForgettingCrashes(t *testing.T) {
	t.Parallel()
	for _, m := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				p, _ := aged(t, s, 0)
				old := worldtest.IDAt(time.Now().Add(-12*aDay), 0)
				halfWay := 0 // crashes while rows were deleted
				for n := int64(1); ; n += 1 + n/8 {
					p.settled()
					seedOld(t, s, forgetEvery+20) // the crash before has left some of them
					before, id := p.Balance("k"), newID()
					dying, fuse := storagetest.Crash(s, n, m)
					q := newProcess(t, dying, values.Config[Account]{Window: 4, Retention: 10 * aDay})
					_ = q.apply("k", q.change(id, 1))
					if left := oldRows(t, s); left > 0 && left < forgetEvery+20 {
						halfWay++
					}
					p.applied("k", p.change(id, 1))
					worldtest.Want(t, fmt.Sprintf("total after a crash in call %d", n), p.Balance("k"), before+1)
					worldtest.WantErr(t, p.apply("k", p.change(old, 1))[0], values.ErrTooOld)
					if !fuse.Fired() {
						break
					}
				}
				if halfWay == 0 {
					t.Error("no crash came while rows were deleted")
				}
			})
		})
	}
}

// The deletion ends with the caller's context.
func TestForgettingIsCancelled(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		aged(t, s, 150)
		ctx, cancel := context.WithCancelCause(t.Context())
		var deletions atomic.Int64
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if isDelete(op) {
				deletions.Add(1)
				cancel(errors.New("the worker stops"))
			}
			return do()
		}), values.Config[Account]{Window: 4, Retention: 10 * aDay})
		p.settled()
		if err := p.Accounts.Apply(ctx, "k", []values.Change[Account]{p.change(newID(), 1)}, nil)[0].Err; err != nil {
			t.Errorf("the message that was applied: %v", err)
		}
		if n := deletions.Load(); n == 0 || n > 16 {
			t.Errorf("%d deletions, want those under way only", n)
		}
	})
}

// BenchmarkForgetting applies messages to a document with no rows past retention, or with as many as it moves out.
func BenchmarkForgetting(b *testing.B) {
	for _, fold := range []int{1, 128} {
		for _, past := range []bool{false, true} {
			b.Run(fmt.Sprintf("fold=%d/past=%v", fold, past), func(b *testing.B) {
				s := worldtest.OpenStore(b, worldtest.Virtual)
				p := newProcess(b, s, values.Config[Account]{})
				for range 100 {
					p.applied("k", p.change(newID(), 1))
				}
				if past {
					seedOld(b, s, b.N+1000)
				}
				before := asked(s)
				b.ResetTimer()
				for n := 0; n < b.N; n += fold {
					var changes []values.Change[Account]
					for range min(fold, b.N-n) {
						changes = append(changes, p.change(newID(), 1))
					}
					p.applied("k", changes...)
				}
				b.ReportMetric(float64(asked(s)-before)/float64(b.N), "requests/op")
			})
		}
	}
}

// asked counts the requests to a store.
func asked(s *storage.Store) (n int64) {
	for _, r := range s.Requests() {
		n += r.Count
	}
	return n
}
