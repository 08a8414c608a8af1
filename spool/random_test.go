package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// A walk is a random schedule of sends, discards, damage, and failures of the store and the file.
type walk struct {
	*world
	rand     *rand.Rand
	file     flaky
	accepted map[string]bool // IDs whose Send returned nil
	refused  map[string]bool // IDs whose Send returned an error, and that the store hasn't got
	touched  map[string]bool // IDs of entries that were discarded or damaged
}

const walkBytes = 4000

// step does something.
func (w *walk) step(n int) {
	t := w.t
	switch k := w.rand.IntN(20); {
	case k < 9:
		_, err := w.send(t.Context(), n)
		switch {
		case err == nil:
			w.accepted[key(n)] = true
		case !errors.Is(err, storage.ErrUnavailable):
			t.Fatalf("send %d: %v", n, err)
		case w.mood.Load() != lost:
			w.refused[key(n)] = true
		}
	case k < 12:
		all := w.listed()
		if len(all) == 0 {
			return
		}
		e := all[w.rand.IntN(len(all))]
		for _, m := range e.Messages {
			w.touched[m.ID] = true
		}
		if k == 9 {
			w.damage(t.Context(), e.ID)
		} else if err := Discard(t.Context(), w.path, e.ID, "ada", "wrong"); err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
	case k < 14:
		w.mood.Store([]int32{up, away, away, lost}[w.rand.IntN(4)])
	case k < 16:
		calls := []string{"", "", "put blob", "delete blob", "get blob"}
		w.file.before.Store(calls[w.rand.IntN(len(calls))])
		w.file.after.Store(calls[w.rand.IntN(len(calls))])
	default:
		time.Sleep(time.Duration(w.rand.Int64N(int64(20 * time.Second))))
	}
}

// check fails the test if a counter is out of its bounds.
func (w *walk) check(after int) {
	if st := w.spool.State(); st.Bytes < 0 || st.Bytes > walkBytes || st.Waiting < 0 || st.Refused < 0 {
		w.t.Fatalf("after step %d: %+v", after, st)
	}
}

// audit compares the counters with the file, once nothing is in doubt.
func (w *walk) audit() {
	w.t.Helper()
	w.file.before.Store("")
	w.file.after.Store("")
	time.Sleep(asideFor + time.Minute) // all that was set aside is tried again
	synctest.Wait()
	bytes, messages := int64(0), int64(0)
	for b := range w.openedBlobs(w.t) {
		e, _ := parseKey(b.Key)
		bytes, messages = bytes+b.Size, messages+e.messages
	}
	if st := w.spool.State(); st.Bytes != bytes || st.Waiting+st.Refused != messages || len(w.spool.index.inDoubt()) > 0 {
		w.t.Errorf("got %+v; the file has %d bytes and %d messages; log:\n%s", st, bytes, messages, w.log)
	}
}

// Laws 4, 5, 6 and 7: in any schedule the spool counts what is in the file, what it accepted arrives, and what it
// refused doesn't.
func TestTheSpoolCountsWhatIsInTheFileInRandomSchedules(t *testing.T) {
	var accepted, refused, touched atomic.Int64
	t.Cleanup(func() {
		if accepted.Load() == 0 || refused.Load() == 0 || touched.Load() == 0 {
			t.Errorf("%d accepted, %d refused, %d touched: want some of each", accepted.Load(), refused.Load(), touched.Load())
		}
	})
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, plain *world) {
				w := &walk{world: plain, rand: rand.New(rand.NewPCG(seed, 1)), accepted: map[string]bool{}, refused: map[string]bool{}, touched: map[string]bool{}}
				w.start(Config{MaxBytes: walkBytes}, w.file.over)
				for n := range 150 {
					w.step(n)
					w.check(n)
				}
				w.mood.Store(away)
				w.audit()
				w.mood.Store(up)
				w.audit()
				w.wantWaiting(0)
				got := w.arrived(worldtest.Accounts)
				for id := range w.accepted {
					if !w.touched[id] && !slices.Contains(got, id) {
						t.Errorf("%s was accepted, and is lost", id)
					}
				}
				for _, id := range got {
					if w.refused[id] {
						t.Errorf("%s was refused, and was sent", id)
					}
				}
				accepted.Add(int64(len(w.accepted)))
				refused.Add(int64(len(w.refused)))
				touched.Add(int64(len(w.touched)))
			})
		})
	}
}
