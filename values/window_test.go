package values_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The oldest entries become rows, together. An ID newer than the watermark costs no read. An ID at or before it,
// costs one point read, and a key one query.
func TestWindowRowsAndReads(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const window = 10
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{Window: window})
		var all []string
		begin := time.Now()
		for i := range 5 * window {
			time.Sleep(time.Millisecond)
			all = append(all, worldtest.IDAt(time.Now(), i))
			p.applied("k", p.change(all[i], 1))
			r := stored(t, s, "k")
			if n := len(r.Applied) / entrySize; n > 2*window {
				t.Fatalf("after %d messages the window holds %d; want at most %d", i+1, n, 2*window)
			}
			if n := len(r.Applied)/entrySize + rows(t, s, "k"); n != i+1 {
				t.Fatalf("after %d messages %d are remembered", i+1, n)
			}
			// The first of n messages, in the order of their times, have left.
			if left := i + 1 - len(r.Applied)/entrySize; r.Left != (left > 0) ||
				left > 0 && r.Watermark != begin.Add(time.Duration(left)*time.Millisecond).UnixMilli() {
				t.Fatalf("after %d messages, %d left: left is %v, the watermark %d ms after the start", i+1, left, r.Left, r.Watermark-begin.UnixMilli())
			}
		}
		worldtest.Want(t, "point reads for newer IDs", calls.Count("get row"), 0)
		worldtest.Want(t, "reads of the document", calls.Count("get blob"), 1)
		if s.Atomic() { // rows go with the write
			worldtest.Want(t, "batches of rows", calls.Count("put rows"), 0)
			worldtest.Want(t, "queries", calls.Count("query"), 0)
		}

		reads := func(id string, want int) {
			t.Helper()
			before, queries := calls.Count("get row"), calls.Count("query")
			p.applied("k", p.change(id, 1))
			if id == "a key" {
				worldtest.Want(t, "queries for a key", calls.Count("query")-queries, want)
				want = 0
			}
			worldtest.Want(t, "point reads for "+id, calls.Count("get row")-before, want)
		}
		reads(all[len(all)-1], 0)                                                 // in the window
		reads(all[0], 1)                                                          // a row
		reads(worldtest.IDAt(begin, 1234), 1)                                     // never seen, before the watermark
		reads(worldtest.IDAt(time.UnixMilli(stored(t, s, "k").Watermark), 77), 1) // at it
		reads("a key", 1)
		reads("a key", 0) // still in the window
		worldtest.Want(t, "balance", p.Balance("k"), 5*window+3)
	})
}

// Rows of messages that are folded together are read together, with the same results.
func TestRowsAreReadTogether(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const window, all = 10, 1300
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{Window: window})
		begin := time.Now()
		at := func(i int) string { return worldtest.IDAt(begin.Add(time.Duration(i)*time.Millisecond), i) }
		for i := range all {
			p.applied("k", p.change(at(2*i), 1))
		}
		before := [2]int{calls.Count("get row"), calls.Count("query")}
		late := []values.Change[Account]{p.change(at(0), 1), p.change(at(6), 2), p.change(at(7), 1), p.change(at(9), 1), p.change("a key", 1)}
		errs := p.apply("k", late...)
		for i, err := range errs {
			if want := i == 1; errors.Is(err, values.ErrContentDiffers) != want || (err != nil) != want {
				t.Errorf("message %d: got %v; only the one with another content fails", i, err)
			}
		}
		worldtest.Want(t, "balance", p.Balance("k"), all+3)
		worldtest.Want(t, "queries, one for the key", calls.Count("query")-before[1], 2)
		worldtest.Want(t, "point reads", calls.Count("get row")-before[0], 0)

		// Rows that are far from the others are read one by one.
		before = [2]int{calls.Count("get row"), calls.Count("query")}
		p.applied("k", p.change(at(0), 1), p.change(at(900), 1))
		worldtest.Want(t, "balance", p.Balance("k"), all+3)
		worldtest.Want(t, "queries", calls.Count("query")-before[1], 1)
		worldtest.Want(t, "point reads", calls.Count("get row")-before[0], 1)

		// More rows of other messages lie between them than a page holds.
		before = [2]int{calls.Count("get row"), calls.Count("query")}
		var many []values.Change[Account]
		for i := range 40 {
			many = append(many, p.change(at(64*i), 1), p.change(at(64*i+1), 1))
		}
		p.applied("k", many...)
		worldtest.Want(t, "balance", p.Balance("k"), all+3+40)
		worldtest.Want(t, "queries", calls.Count("query")-before[1], 2)
		worldtest.Want(t, "point reads", calls.Count("get row")-before[0], 0)

		// When a page fails, its rows are read one by one.
		pages, asked := 0, 0
		failing := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			switch op.Name {
			case "query":
				if pages++; pages == 2 {
					return op.Fail(storage.ErrUnavailable)
				}
			case "get row":
				asked++
			}
			return do()
		}), values.Config[Account]{Window: window})
		many = many[:0]
		for i := range 40 {
			many = append(many, failing.change(at(64*i), 1), failing.change(at(64*i+1), 1))
		}
		failing.applied("k", many...)
		worldtest.Want(t, "balance", p.Balance("k"), all+3+40)
		worldtest.Want(t, "queries", pages, 2)
		if asked == 0 || asked >= len(many)-1 {
			t.Errorf("%d point reads for %d messages; want those of the second page alone", asked, len(many))
		}
	})
}

// Before any entry has left, no message costs a read, not even keys and old times.
func TestNoReadBeforeAnythingLeft(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{})
		p.applied("k", p.change("a key", 1), p.change(worldtest.IDAt(time.Now().Add(-1000*time.Hour), 1), 1), p.change(newID(), 1))
		worldtest.Want(t, "point reads", calls.Count("get row"), 0)
	})
}

// Only entries of a stored document may become rows. If the write fails after rows were written, as it can where
// commits aren't atomic, a message of that write must not count as a replay.
func TestOnlyCommittedEntriesBecomeRows(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[Account]{Window: 2}
		p := newProcess(t, s, cfg)
		for range 4 {
			time.Sleep(time.Second)
			p.applied("k", p.change(newID(), 1))
		}
		hooked := storagetest.Intercept(s, once(writing(s), func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) }))
		failing := newProcess(t, hooked, cfg)
		var batch []values.Change[Account]
		for i := range 20 { // older than all in the window: the first to leave
			batch = append(batch, failing.change(worldtest.IDAt(time.Now().Add(-time.Hour), i), 1))
		}
		for _, err := range failing.apply("k", batch...) {
			worldtest.WantErr(t, err, storage.ErrUnavailable)
		}
		if n := rows(t, s, "k"); s.Atomic() != (n == 0) || n > 4 {
			t.Errorf("rows after the failed write: got %d, want 1 to 4, or none by an atomic commit", n)
		}
		p.applied("k", batch...)
		worldtest.Want(t, "balance", p.Balance("k"), 24)
		p.applied("k", batch...)
		worldtest.Want(t, "total after replays", p.Balance("k"), 24)
	})
}

// Replays far behind the watermark are recognised, in any order, by any process. The document stays small.
func TestTenThousandMessages(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		quiet := func(c values.Change[Account]) values.Change[Account] {
			fold := c.Fold
			c.Fold = func(v Account) (Account, []channel.Message, error) {
				v, _, err := fold(v)
				return v, nil, err
			}
			return c
		}
		const batch = 200
		n := 10_000
		if !s.Atomic() {
			n = 3_000 // calls for every row take long
		}
		p := newProcess(t, s, values.Config[Account]{})
		all := make([]string, n)
		for i := range all {
			all[i] = worldtest.IDAt(time.Now().Add(time.Duration(i)*time.Second), i)
			if i%10 == 3 {
				all[i] = fmt.Sprintf("key-%d", i)
			}
		}
		largest := 0
		for i := 0; i < n; i += batch {
			changes := make([]values.Change[Account], 0, batch)
			for _, id := range all[i : i+batch] {
				changes = append(changes, quiet(p.change(id, 1)))
			}
			p.applied("k", changes...)
			if size := stored(t, s, "k").size; i > n/2 && size > largest {
				if largest > 0 && size > largest+100 {
					t.Errorf("after %d messages the document has grown from %d to %d bytes", i+batch, largest, size)
				}
				largest = size
			}
		}
		worldtest.Want(t, "balance", p.Balance("k"), n)
		fresh := newProcess(t, s, values.Config[Account]{})
		var replays []values.Change[Account]
		for i := 0; i < n; i += 7 {
			replays = append(replays, quiet(fresh.change(all[i], 1)))
		}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(replays), func(i, j int) { replays[i], replays[j] = replays[j], replays[i] })
		fresh.applied("k", replays...)
		worldtest.Want(t, "folds of replays", int(fresh.folds.Load()), 0)
		worldtest.Want(t, "total after replays", p.Balance("k"), n)
	})
}

// Past retention a message is refused, without a guess. Its row is deleted.
func TestMessagesPastRetentionAreRefused(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const day = 24 * time.Hour
		p := newProcess(t, s, values.Config[Account]{Window: 4, Retention: 10 * day})
		old := newID()
		p.applied("k", p.change(old, 1), p.change("a key", 1))
		for range 20 {
			time.Sleep(time.Second)
			p.applied("k", p.change(newID(), 1))
		}
		time.Sleep(9 * day)
		p.applied("k", p.change(old, 1)) // still known
		time.Sleep(2 * day)
		worldtest.WantErr(t, p.apply("k", p.change(old, 1))[0], values.ErrTooOld)
		worldtest.WantErr(t, p.apply("k", p.change(worldtest.IDAt(time.Now().Add(-12*day), 1), 1), p.change(newID(), 1))[0], values.ErrTooOld)
		p.applied("k", p.change("a key", 1)) // sent again after retention, but remembered
		worldtest.Want(t, "balance", p.Balance("k"), 23)
		for range forgetEvery {
			time.Sleep(time.Second)
			p.applied("k", p.change(newID(), 1))
		}
		before := worldtest.IDAt(time.Now().Add(-10*day), 0)[:8]
		for row, err := range s.Table("accounts-applied").Query(t.Context(), "k", storage.RowRange{To: "key"}) {
			if err != nil {
				t.Fatal(err)
			}
			if row.Key[:8] < before {
				t.Errorf("row %s is past retention and still there", row.Key)
			}
		}
		p.applied("k", p.change("a key", 1))
		worldtest.Want(t, "balance", p.Balance("k"), 23+forgetEvery)
	})
}

// Wrong clocks of senders cost reads, not correctness.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 5})
		offsets := []time.Duration{0, -20 * day, 365 * day, -time.Hour, 100 * 365 * day}
		var all []string
		for i := range 200 {
			time.Sleep(time.Minute)
			id := worldtest.IDAt(time.Now().Add(offsets[i%len(offsets)]), i)
			all = append(all, id)
			p.applied("k", p.change(id, 1))
			p.applied("k", p.change(all[i/2], 1), p.change(id, 1))
			if n := len(stored(t, s, "k").Applied) / entrySize; n > 10 {
				t.Fatalf("the window holds %d; want at most 10", n)
			}
		}
		worldtest.Want(t, "balance", p.Balance("k"), 200)
	})
}

// A sender's clock is behind by more than the retention. Its messages are refused with an error once they can't
// be judged; they are never applied twice.
func TestClockBehindRetention(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 5, Retention: time.Hour})
		want := 0
		for i := range 60 {
			id := worldtest.IDAt(time.Now().Add(-2*time.Hour), i)
			for copy := range 2 {
				switch err := p.apply("k", p.change(id, 1))[0]; {
				case err == nil && copy == 0:
					want++
				case err != nil:
					worldtest.WantErr(t, err, values.ErrTooOld)
				}
			}
			time.Sleep(time.Second)
			p.applied("k", p.change(newID(), 0))
		}
		worldtest.Want(t, "balance", p.Balance("k"), want)
		if want == 0 || want == 60 {
			t.Errorf("%d of 60 applied; want some, and some refused", want)
		}
	})
}

// Rows that can't be read leave only their own message undecided.
func TestUnreadableRow(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		cfg := values.Config[Account]{Window: 2}
		p := newProcess(t, s, cfg)
		old := newID()
		p.applied("k", p.change(old, 1))
		for range 10 {
			time.Sleep(time.Second)
			p.applied("k", p.change(newID(), 1))
		}
		broken := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get row" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), cfg)
		errs := broken.apply("k", broken.change(newID(), 1), broken.change(old, 1), broken.change(newID(), 1))
		worldtest.WantErr(t, errs[0], nil)
		worldtest.WantErr(t, errs[1], storage.ErrUnavailable)
		worldtest.WantErr(t, errs[2], nil)
		worldtest.Want(t, "balance", p.Balance("k"), 13)
	})
}

// BenchmarkLate folds 256 messages from far behind the watermark, with so many rows between one and the next.
func BenchmarkLate(b *testing.B) {
	for _, gap := range []int{1, 4, 16, 32, 64, 250} {
		b.Run(fmt.Sprintf("gap=%d", gap), func(b *testing.B) {
			const fold, all = 256, 64000
			p := newProcess(b, worldtest.OpenStore(b, worldtest.Virtual), values.Config[Account]{})
			for range 100 {
				p.applied("k", p.change(newID(), 1))
			}
			begin := time.Now().Add(-time.Hour)
			puts := make([]storage.RowPut, all)
			for i := range puts {
				puts[i] = storage.RowPut{Key: fmt.Sprintf("%012x-%024x", begin.UnixMilli()+int64(i), i), Data: make([]byte, 6)}
			}
			if err := p.Store.Table("accounts-applied").PutRows(b.Context(), "k", puts); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				first := int(ids.Add(fold))
				var late []values.Change[Account]
				for i := range fold {
					at := begin.Add(time.Duration((i*gap+first)%all) * time.Millisecond)
					late = append(late, p.change(worldtest.IDAt(at, first+i), 1))
				}
				p.applied("k", late...)
			}
		})
	}
}
