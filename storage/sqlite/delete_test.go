package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Several callers delete in one transaction, each some neighbours and some messages of the others. Each message is
// removed once, and the caller that removed it is told so. A message that another caller has received stays.
func TestDeletionsTogether(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *store) {
		ctx, q := t.Context(), s.Queue("queue")
		const n = 12
		for i := range n {
			send(t, s, "queue", fmt.Sprint(i))
		}
		send(t, s, "other", "a", "b")
		got := receive(t, s, "queue", n)
		slices.SortFunc(got, func(a, b storage.Delivery) int { return a.SentAt.Compare(b.SentAt) })
		other := receive(t, s, "other", 2)
		const kept = 5 // received by another caller by now
		if _, err := q.Extend(ctx, got[kept].Receipt, storage.MinVisibility); err != nil {
			t.Fatal(err)
		}
		claim := func(i int) storage.Claim { return storage.Claim{Queue: "queue", Receipt: got[i].Receipt} }
		commit := func(to *[]storage.Claim, key string, claims ...storage.Claim) func() {
			return func() {
				did, err := s.Commit(ctx, storage.Work{Write: &storage.Write{Container: "docs", Key: key}, Delete: claims})
				if err != nil {
					t.Error(err)
				}
				*to = did.Stale
			}
		}
		var first, second, twice []storage.Claim
		var deleted error
		together(t, s,
			commit(&first, "first", claim(0), claim(2), claim(4), claim(6), storage.Claim{Queue: "other", Receipt: other[1].Receipt}),
			commit(&second, "second", claim(1), claim(0), claim(3), claim(kept), storage.Claim{Queue: "nowhere", Receipt: got[1].Receipt}),
			commit(&twice, "twice", claim(7), claim(7), storage.Claim{Queue: "queue", Receipt: "nonsense"}),
			func() {
				deleted = q.Delete(ctx, []storage.Receipt{got[8].Receipt, got[9].Receipt, got[2].Receipt, got[10].Receipt, got[11].Receipt})
			})
		stale := func(claims ...storage.Claim) string { return fmt.Sprint(claims) }
		if got, want := stale(first...), stale(); got != want {
			t.Errorf("the first left %s, want %s", got, want)
		}
		if got, want := stale(second...), stale(claim(0), claim(kept), storage.Claim{Queue: "nowhere", Receipt: claim(1).Receipt}); got != want {
			t.Errorf("the second left %s, want %s", got, want)
		}
		if got, want := stale(twice...), stale(claim(7), storage.Claim{Queue: "queue", Receipt: "nonsense"}); got != want {
			t.Errorf("the one that names one twice left %s, want %s", got, want)
		}
		var e *storage.StaleError
		if !errors.As(deleted, &e) || !slices.Equal(e.Receipts, []storage.Receipt{got[2].Receipt}) {
			t.Errorf("the last left %v, want %v", deleted, got[2].Receipt)
		}
		for queue, want := range map[string]int64{"queue": 1, "other": 1} {
			if st, err := s.Queue(queue).Stats(ctx); err != nil || st.InFlight != want || st.Ready != 0 {
				t.Errorf("%s: got %+v, %v; want %d in flight", queue, st, err, want)
			}
		}
		rows := 0
		if err := s.db.Read(ctx, func(c *engine.Conn) error {
			n, err := c.OneInt("SELECT count(*) FROM messages")
			rows = int(n)
			return err
		}); err != nil || rows != 2 {
			t.Errorf("%d bodies are left, %v; want 2", rows, err)
		}
	})
}

// A deletion is answered when the disk has it, and no other caller waits for that.
func TestDeletionsAreLate(t *testing.T) {
	t.Parallel()
	if o := deletion(t.Context(), 1); !o.Late || o.Relaxed {
		t.Errorf("late %v, relaxed %v; want late", o.Late, o.Relaxed)
	}
}
