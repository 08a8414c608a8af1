package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// Stats agree with a look at every message. When there are more than are counted, a count is the bound: "at least".
func TestStatsCountUpToABound(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off&sync=normal")
	names := []string{"first", "second", "third"}
	depths := []int{0, 1, 3, 30}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 40 {
		for _, name := range names {
			q := s.Queue(name)
			var batch []storage.Message
			for range depths[r.IntN(len(depths))] {
				batch = append(batch, storage.Message{Delay: time.Duration(max(0, r.IntN(5)-3)) * time.Hour})
			}
			if err := q.Send(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			got, err := q.Receive(t.Context(), 1+r.IntN(20), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range got {
				switch r.IntN(4) {
				case 0:
					_, err = q.Extend(t.Context(), d.Receipt, 0)
				case 1:
					err = q.Rewrite(t.Context(), d.Receipt, nil, 0)
				case 2:
					err = q.Delete(t.Context(), []storage.Receipt{d.Receipt})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		now := time.Now().Add(time.Duration(r.IntN(3)) * time.Hour) // a hidden message may be ready by then
		for _, name := range names {
			all := statsOf(t, s, name, now)
			for _, most := range []int64{1, 10, 1000} {
				got, err := countedUpTo(s, name, now, most)
				if err != nil {
					t.Fatal(err)
				}
				want := all
				want.Ready = min(all.Ready, most)
				if all.Ready > most { // the oldest of those that were counted
					want.Oldest = min(all.Oldest, got.Oldest)
				}
				if all.InFlight+all.Delayed > most {
					want.InFlight = min(all.InFlight, got.InFlight)
					want.Delayed = most - want.InFlight
				}
				if got != want {
					t.Fatalf("round %d, queue %s, counting up to %d: got %+v, want %+v of %+v", round, name, most, got, want, all)
				}
			}
		}
	}
}

func countedUpTo(s *store, name string, now time.Time, most int64) (st storage.Stats, err error) {
	q := s.Queue(name).(*queue)
	err = s.db.Read(context.Background(), func(c *engine.Conn) (err error) {
		st, err = q.countUpTo(c, now, most)
		return err
	})
	return st, err
}

// statsOf looks at every message.
func statsOf(t *testing.T, s *store, name string, now time.Time) (st storage.Stats) {
	t.Helper()
	err := s.db.Read(t.Context(), func(c *engine.Conn) error {
		id, err := s.names.lookup(c, nameKey{kindQueue, name})
		if err != nil {
			return err
		}
		sql := c.Stmt(`SELECT visible, held, sent FROM due WHERE queue = ?1`).Int(1, id)
		for {
			row, err := sql.Step()
			if !row {
				return err
			}
			switch {
			case sql.ColInt(0) <= micros(now):
				st.Ready++
				st.Oldest = max(st.Oldest, now.Sub(time.UnixMicro(sql.ColInt(2))))
			case sql.ColInt(1) == 1:
				st.InFlight++
			default:
				st.Delayed++
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// BenchmarkStats counts a queue that is alone, and one beside another of the same depth.
func BenchmarkStats(b *testing.B) {
	for _, depth := range []int{1_000, 100_000} {
		for _, queues := range []int{1, 2} {
			b.Run(fmt.Sprintf("depth=%d/queues=%d", depth, queues), func(b *testing.B) {
				s := openTest(b, "?wake=off&sync=normal")
				batch := slices.Repeat([]storage.Message{{Body: benchBody}}, 500)
				for range depth / len(batch) {
					for i := range queues {
						if err := s.Queue(fmt.Sprintf("bench%d", i)).Send(b.Context(), batch); err != nil {
							b.Fatal(err)
						}
					}
				}
				q := s.Queue("bench0")
				b.ResetTimer()
				for range b.N {
					if st, err := q.Stats(b.Context()); err != nil || st.Ready != min(int64(depth), maxCounted) {
						b.Fatal(st, err)
					}
				}
			})
		}
	}
}
