package pause_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A change is seen at once where the store rings, and within half a minute elsewhere.
func TestAChangeIsSeen(t *testing.T) {
	t.Parallel()
	deafened := func(s *storage.Store) *storage.Store {
		link := storagetest.NewLink(s)
		link.Cut("subscribe")
		return link.Store
	}
	for name, c := range map[string]struct {
		limit  func(*storage.Store) *storage.Store
		within time.Duration
	}{
		"rings":        {func(s *storage.Store) *storage.Store { return s }, time.Millisecond},
		"no rings":     {storagetest.Plain, poll},
		"can't listen": {deafened, poll},
		"rings are lost": {func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "publish" {
					return nil
				}
				return do()
			})
		}, poll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				p := at(t, c.limit(s))
				w := watching(t, p)
				w.want(t, "at the beginning", "")
				for range 3 {
					time.Sleep(5*time.Minute + time.Second)
					hold(t, p, 0, "mails", "bills")
					time.Sleep(c.within)
					w.want(t, "paused", "bills mails")
					resume(t, p, "mails", "orders")
					time.Sleep(c.within)
					w.want(t, "one is resumed", "bills")
					resume(t, p, "bills")
					time.Sleep(c.within)
					w.want(t, "all are resumed", "")
				}
			})
		})
	}
}

// A pause holds for those that come later, whoever has stopped meanwhile.
func TestLawAPauseHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		first := watching(t, at(t, s))
		hold(t, at(t, s), 0, "mails")
		hold(t, at(t, s), time.Hour, "bills")
		first.want(t, "before", "bills mails")
		first.stop()
		time.Sleep(30 * time.Minute)
		later := watching(t, at(t, s))
		later.want(t, "after a restart of all", "bills mails")
		time.Sleep(30*time.Minute + time.Second)
		later.want(t, "after the hour", "mails")
		later.stop()
		time.Sleep(1000 * time.Hour)
		watching(t, at(t, s)).want(t, "much later", "mails")
	})
}

// A pause with a length ends by itself, for all that watch it, and is taken out of the blob.
func TestLawAPauseEnds(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		all := []*watch{watching(t, at(t, s)), watching(t, at(t, storagetest.Plain(s))), watching(t, at(t, storagetest.Intercept(s, calls.Hook)))}
		time.Sleep(time.Hour)
		hold(t, at(t, s), 30*time.Minute, "mails")
		hold(t, at(t, s), 20*time.Minute, "bills", "orders")
		time.Sleep(20*time.Minute - time.Millisecond)
		for _, w := range all {
			w.want(t, "before the end", "bills mails orders")
		}
		time.Sleep(time.Millisecond)
		for _, w := range all {
			w.want(t, "at the first end", "mails")
		}
		hold(t, at(t, s), time.Hour, "mails") // a longer pause, from now on
		time.Sleep(time.Hour - time.Millisecond)
		for _, w := range all {
			w.want(t, "before the end of the longer one", "mails")
		}
		time.Sleep(time.Millisecond)
		for _, w := range all {
			w.want(t, "at the second end", "")
		}
		if got := listed(t, skewed(t, s, -24*time.Hour)); got != "" {
			t.Errorf("the blob still has %q", got)
		}
		if n := calls.Count("put blob"); n > 2 {
			t.Errorf("a watch has made %d writes, want one an end at most", n)
		}
	})
}

// While the store is away, what was known stays in force. A pause with a length ends all the same. A watch that has
// never reached the store says nothing.
func TestLawTheStoreAwayChangesNothing(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var out log
		link := storagetest.NewLink(s)
		p, err := pause.New(link.Store, pause.Config{Logger: out.logger()})
		must(t, err)
		w, other := watching(t, p), at(t, s)
		hold(t, other, 0, "mails")
		hold(t, other, time.Hour, "bills")
		time.Sleep(time.Minute)
		link.Cut()
		resume(t, other, "mails")
		late := watching(t, at(t, link.Store))
		time.Sleep(58 * time.Minute)
		w.want(t, "while the store is away", "bills mails")
		time.Sleep(2 * time.Minute)
		w.want(t, "after the end of one", "mails")
		hold(t, other, 0, "orders")
		time.Sleep(2 * time.Hour)
		w.want(t, "much later", "mails")
		late.want(t, "a watch that has reached no store", nothing)
		link.Restore()
		time.Sleep(poll)
		w.want(t, "when the store is back", "orders")
		late.want(t, "when the store is back", "orders")
		out.wantLines(t, 1, "WARN", "can't read the pauses of queues")
		out.wantLines(t, 1, "INFO", "can read the pauses of queues again")
	})
}

// A watch that is there when a pause begins keeps its length, whatever clocks say. One that comes later goes by its
// clock, never longer than the length, and ends it for nobody else.
func TestLawClocksEndNoPauseOfOthers(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ahead, behind := skewed(t, storagetest.Plain(s), 48*time.Hour), skewed(t, storagetest.Plain(s), -48*time.Hour)
		early := []*watch{watching(t, ahead), watching(t, behind), watching(t, at(t, s))}
		time.Sleep(10 * time.Minute)
		hold(t, at(t, s), time.Hour, "mails")
		time.Sleep(59 * time.Minute)
		for _, w := range early {
			w.want(t, "before the end", "mails")
		}
		watching(t, ahead).want(t, "a late one whose clock is ahead", "")
		slow := watching(t, behind)
		slow.want(t, "a late one whose clock is behind", "mails")
		time.Sleep(30 * time.Second)
		early[2].want(t, "half a minute before the end", "mails")
		time.Sleep(time.Minute) // the pause is over, and nobody has known it for longer than that
		for _, w := range append(early, slow) {
			w.want(t, "after the end", "")
		}
		watching(t, behind).want(t, "a late one after the end", "")
	})
}

// Without a watch from the beginning, a pause ends for each by its clock, and within its length.
func TestAPauseThatNobodyHasWatched(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		hold(t, at(t, s), time.Hour, "mails")
		time.Sleep(50 * time.Minute)
		right, behind := watching(t, at(t, s)), watching(t, skewed(t, s, -48*time.Hour))
		time.Sleep(10 * time.Minute)
		right.want(t, "by a good clock", "")
		behind.want(t, "by a clock that is behind", "mails")
		time.Sleep(50 * time.Minute)
		behind.want(t, "after the length", "")
		if got := listed(t, at(t, s)); got != "" {
			t.Errorf("a listing has %q", got)
		}
	})
}

// A watch begins while its clock is wrong for a moment: an hour behind, or a month ahead. With the next look after the
// clock was set it goes by the clock that is right, and never longer than the pause is long.
func TestAPauseThatBeganUnderAWrongClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{-time.Hour, 30 * 24 * time.Hour} {
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				hold(t, at(t, s), 2*time.Hour, "mails")
				time.Sleep(time.Hour)
				var off atomic.Int64
				off.Store(int64(wrong))
				w := watching(t, pause.WithClock(at(t, s), func() time.Time { return time.Now().Add(time.Duration(off.Load())) }))
				synctest.Wait()
				off.Store(0)
				time.Sleep(59 * time.Minute)
				w.want(t, "before the end", "mails")
				time.Sleep(time.Minute)
				w.want(t, "at the end", "")
			})
		})
	}
}

// A blob that can't be read as pauses changes nothing, and is spoken of once. Then changes are refused until a repair.
func TestLawAnUnreadableBlobChangesNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"empty": "", "junk": "junk", "another form": `{"pauses":[]}`, "no pauses": `{"epoch":7}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var out log
				p, err := pause.New(s, pause.Config{Logger: out.logger()})
				must(t, err)
				w := watching(t, p)
				hold(t, p, 0, "mails")
				time.Sleep(time.Minute)
				put(t, s, body)
				late := watching(t, at(t, s))
				time.Sleep(2 * time.Hour)
				w.want(t, "with the blob", "mails")
				late.want(t, "a watch that has seen nothing else", nothing)
				out.wantLines(t, 1, "ERROR", "can't understand the pauses of queues", "blob queues in container pauses")
				wantErr(t, p.Resume(t.Context(), "mails"), pause.ErrUnreadable, "resume")
				wantErr(t, p.Pause(t.Context(), []string{"bills"}, 0, pause.Note{}), pause.ErrUnreadable)
				_, err = p.List(t.Context())
				wantErr(t, err, pause.ErrUnreadable, "list")
				must(t, p.Repair(t.Context(), []string{"bills"}, time.Hour, pause.Note{}))
				w.want(t, "repaired", "bills")
				late.want(t, "repaired", "bills")
				out.wantLines(t, 1, "INFO", "can understand the pauses of queues again")
				wantErr(t, p.Repair(t.Context(), nil, 0, pause.Note{}), storage.ErrInvalid, "can be read")
				resume(t, p, "bills")
				w.want(t, "resumed", "")
			})
		})
	}
}

// The package's comment promises these costs.
func TestCost(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		watching(t, at(t, storagetest.Intercept(s, calls.Hook)))
		for _, paused := range [][]string{nil, {"mails", "bills", "orders", "notes", "lists"}} {
			if paused != nil {
				hold(t, at(t, s), 24*time.Hour, paused...)
			}
			time.Sleep(time.Minute)
			before, reads := calls.Count(), calls.Count("get blob")
			time.Sleep(time.Hour)
			if n := calls.Count() - before; n < 120 || n > 150 || n != calls.Count("get blob")-reads {
				t.Errorf("with %d pauses: %d calls in an hour, of these %d reads; want some 130 reads", len(paused), n, calls.Count("get blob")-reads)
			}
		}
		if n := calls.Count("subscribe"); n != 1 {
			t.Errorf("it has listened %d times", n)
		}
	})
}

// A spurious ring only makes a watch read, and a watch that ends listens no more.
func TestRings(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		w := watching(t, at(t, s))
		w.want(t, "at the beginning", "")
		hold(t, at(t, s), 0, "mails")
		for _, data := range []string{"", "mails", "{}"} {
			if heard, err := s.Publish(t.Context(), "pauses", []byte(data), false); heard != 1 || err != nil {
				t.Errorf("%d heard %q, %v", heard, data, err)
			}
			w.want(t, "after a spurious ring", "mails")
		}
		if w.n > 2 {
			t.Errorf("it has told %d times, want one for each change", w.n)
		}
		w.stop()
		if heard, err := s.Publish(t.Context(), "pauses", nil, false); heard != 0 || err != nil {
			t.Errorf("%d still listen, %v", heard, err)
		}
	})
}

// A change while a watch begins to listen is seen at once.
func TestAChangeWhileAWatchBegins(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before it listens": false, "when it listens": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				w := watching(t, at(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name != "subscribe" {
						return do()
					}
					if !late {
						hold(t, at(t, s), 0, "mails")
						return do()
					}
					err := do()
					hold(t, at(t, s), 0, "mails")
					return err
				})))
				w.want(t, "at once", "mails")
			})
		})
	}
}

// The end of a pause is told to those that don't know it.
func TestTheEndIsTold(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		first := watching(t, at(t, s))
		first.want(t, "at the beginning", "")
		hold(t, at(t, s), time.Hour, "mails")
		time.Sleep(time.Minute)
		behind := watching(t, skewed(t, s, -48*time.Hour))
		time.Sleep(59*time.Minute - time.Millisecond)
		behind.want(t, "before the end", "mails")
		time.Sleep(time.Millisecond)
		behind.want(t, "at the end", "")
	})
}

// A watch that could not reach the store when a pause began doesn't end it for others by its clock.
func TestLawAWatchThatWasAwayEndsNoPauseOfOthers(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(storagetest.Plain(s))
		away, there := watching(t, skewed(t, link.Store, 48*time.Hour)), watching(t, at(t, s))
		time.Sleep(time.Minute)
		link.Cut()
		time.Sleep(30 * time.Minute)
		hold(t, at(t, s), time.Hour, "mails")
		link.Restore()
		time.Sleep(59 * time.Minute)
		away.want(t, "by its clock", "")
		there.want(t, "for others", "mails")
	})
}

// A watch whose first look has failed looks again soon: its user waits for it.
func TestAFirstLookThatFailsIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		w := watching(t, at(t, link.Store))
		w.want(t, "while the store is away", nothing)
		link.Restore()
		time.Sleep(time.Second)
		w.want(t, "a second later", "")
	})
}
