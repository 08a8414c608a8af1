package alert_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Three processes look at one store. One of them tells what is wrong, once at each end.
func TestLawOneProcessTellsOnceAtEachEnd(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b, c := start(t, s, nil), start(t, s, nil), start(t, s, nil)
		damage(t, s, "season")
		minutes(10)
		mend(t, s, "season")
		minutes(10)
		damage(t, s, "season")
		minutes(10)
		a.want(t, "after half an hour", "wrong season", "over season", "wrong season")
		b.want(t, "of another process")
		c.want(t, "of another process")
		all, seen := a.all(), map[string]bool{}
		for _, x := range all {
			if x.ID == "" || seen[x.ID] || x.Finding.Fix == "" || x.Finding.Check != "gates" {
				t.Errorf("got %+v; want a finding under an ID of its own", x)
			}
			seen[x.ID] = true
		}
		if !all[1].Since.Equal(all[0].At) || !all[0].Since.Equal(all[0].At) || all[1].At.Sub(all[0].At) != 10*time.Minute {
			t.Errorf("got the times %v, %v and %v; want an end ten minutes after the beginning", all[0].At, all[1].Since, all[1].At)
		}
		a.quit(t)
		b.quit(t)
		c.quit(t)
	})
}

// After a leader's death, its orderly stop and a restart nothing is told again, and the end is told by whoever leads.
func TestLawANewLeaderTellsNothingAgain(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		damage(t, s, "one", "two", "three")
		minutes(5)
		a.want(t, "by the first leader", "wrong one", "wrong three", "wrong two")
		b := start(t, s, nil)
		a.kill()
		minutes(5)
		mend(t, s, "one")
		minutes(5)
		b.want(t, "by its successor", "over one")
		c := start(t, s, nil)
		b.quit(t)
		mend(t, s, "two")
		minutes(5)
		c.want(t, "after a hand-over", "over two")
		c.quit(t)
		d := start(t, s, nil)
		minutes(5)
		mend(t, s, "three")
		minutes(5)
		d.want(t, "after a restart", "over three")
		d.quit(t)
		worldtest.WantErr(t, <-a.ended, nil)
	})
}

// A dead leader is followed so soon that what is wrong is told within five minutes.
func TestLawADeadLeaderIsFollowed(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b := start(t, s, nil), start(t, s, nil)
		minutes(3)
		a.kill()
		damage(t, s, "season")
		minutes(5)
		b.want(t, "by the successor", "wrong season")
		b.quit(t)
	})
}

// A finding whose numbers change is the same finding.
func TestLawAFindingThatGrowsIsToldOnce(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		for range 20 {
			worldtest.WantErr(t, s.Queue("orders").Send(t.Context(), []storage.Message{{Body: []byte("m")}}), nil)
			minutes(1)
		}
		all := a.all()
		if len(all) != 1 || all[0].Finding.Check != "lag" || all[0].Finding.Queue != "orders" {
			t.Fatalf("told %+v, want that messages wait in queue orders, once", all)
		}
		a.quit(t)
	})
}

// A finding that only one look finds, or misses, has neither begun nor ended.
func TestLawOneLookProvesNothing(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		damage(t, s, "old")
		minutes(5)
		a.want(t, "at first", "wrong old")
		for range 5 {
			damage(t, s, "short")
			mend(t, s, "old")
			minutes(1)
			mend(t, s, "short")
			damage(t, s, "old")
			minutes(2)
		}
		a.want(t, "after single looks", "wrong old")
		a.quit(t)
	})
}

// While a part of the store can't be read, its findings neither begin nor end, and those of the other parts do. While
// nothing can be read, nothing is told.
func TestLawWhatCantBeReadStays(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		damage(t, s, "season")
		minutes(5)
		a.fail(of("gates"))
		minutes(5)
		if _, err := s.Blobs("schedules").Put(t.Context(), "nightly", []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		minutes(5)
		a.want(t, "while gates can't be read", "wrong season", "wrong nightly")
		if n := a.log.Count("a part of the store can't be looked at"); n != 1 {
			t.Errorf("the log tells %d times that gates can't be read, want once: %s", n, a.log)
		}
		a.fail(func(storagetest.Op) bool { return true })
		minutes(30)
		a.fail(nil)
		minutes(5)
		a.want(t, "after an outage", "wrong season", "wrong nightly")
		mend(t, s, "season")
		minutes(5)
		a.want(t, "in the end", "wrong season", "wrong nightly", "over season")
		a.quit(t)
	})
}

// A store that doesn't list its queues for a while hides queues of which no program tells. That is no end.
func TestLawAQueueThatIsntListedStays(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		worldtest.WantErr(t, s.Queue("orders").Send(t.Context(), []storage.Message{{Body: []byte("m")}}), nil)
		minutes(10)
		a.fail(func(op storagetest.Op) bool { return op.Name == "list queues" })
		minutes(10)
		a.fail(nil)
		minutes(10)
		if all := a.all(); len(all) != 1 {
			t.Errorf("told %+v, want once that messages wait", all)
		}
		a.quit(t)
	})
}

// A leader that stood still while another one led can't write over what that one has noted.
func TestLawALateLeaderWritesNothing(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		stands := make(chan struct{})
		a := start(t, s, func(_ context.Context, _ alert.Alert, n int) error {
			if n == 1 {
				<-stands
			}
			return nil
		})
		b := start(t, s, nil)
		damage(t, s, "season")
		minutes(2)
		a.fail(func(op storagetest.Op) bool { return of("leases")(op) }) // it keeps the rest of the store
		minutes(10)
		mend(t, s, "season")
		minutes(5)
		close(stands)
		a.fail(nil)
		minutes(5)
		b.want(t, "by the successor", "wrong season", "over season")
		b.quit(t)
		a.quit(t)
		c := start(t, s, nil)
		minutes(5)
		c.want(t, "later")
		c.quit(t)
	})
}

// A document of somebody else or of a newer version is left as it is.
func TestLawAForeignDocumentStays(t *testing.T) {
	for name, content := range map[string]string{
		"junk":      "junk",
		"a form":    `{"lease":"leader/alerts/shop","fence":1,"id":"x"}` + "\n" + `{"form":2,"entries":[]}`,
		"no object": `{"lease":"leader/alerts/shop","fence":1,"id":"x"}` + "\n" + `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, s *storage.Store) {
				body := func() string {
					b, err := s.Blobs("alerts").Get(t.Context(), "shop", "")
					worldtest.WantErr(t, err, nil)
					_, rest, _ := strings.Cut(string(b.Body), "\n") // a claim changes the first line
					return rest
				}
				_, err := s.Blobs("alerts").Put(t.Context(), "shop", []byte(content), storage.Condition{})
				worldtest.WantErr(t, err, nil)
				before := body()
				a := start(t, s, nil)
				damage(t, s, "season")
				minutes(20)
				worldtest.Want(t, "the document", body(), before)
				if len(a.attempts()) > 0 || a.log.Count("alerts") == 0 {
					t.Errorf("tried %+v, logged %s; want no call, and why", a.attempts(), a.log)
				}
				worldtest.WantErr(t, s.Blobs("alerts").Delete(t.Context(), "shop", storage.Condition{}), nil)
				minutes(10)
				a.want(t, "when it was deleted", "wrong season")
				a.quit(t)
			})
		})
	}
}

// Notes wake nobody: here that no program has published.
func TestLawNotesAreNotTold(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		minutes(20)
		if len(a.attempts()) > 0 {
			t.Errorf("told %+v", a.attempts())
		}
		a.quit(t)
	})
}

// A quiet store costs as much as the package comment says. The program has three queues, and handlers for two.
func TestLawTheCostIsKnown(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{})
		w.Decide()
		w.Project()
		worldtest.WantErr(t, catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "shop", Version: "v1"}), nil)
		a := start(t, s, nil)
		b := start(t, s, nil)
		minutes(10)
		a.want(t, "of a queue without a consumer", "wrong ")
		cost := func(p *process, before int) float64 { return float64(p.calls.Count()-before) / 100 }
		ofA, ofB := a.calls.Count(), b.calls.Count()
		minutes(100)
		const lease, look, version, queues, turns, lanes = 3, 17, 1, 3, 1, 2 * 51 / 10.0
		perA, perB := cost(a, ofA), cost(b, ofB)
		t.Logf("a leader makes %.1f requests a minute, and who stands by %.1f", perA, perB)
		if most := lease + look + version + queues + turns + lanes + 0.5; perA > most || perA < most-1 { // now and then a listing has another page
			t.Errorf("a leader makes %.2f requests a minute, want %.1f", perA, most)
		}
		if perB > 6 {
			t.Errorf("who stands by makes %.2f requests a minute, want 6 at most", perB)
		}
		if n := a.calls.Count("publish") + b.calls.Count("publish"); n > 4 {
			t.Errorf("the processes have rung %d times, want none but by the leader's beginning", n)
		}
		a.quit(t)
		b.quit(t)
	})
}

func TestBadConfigs(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	hook := func(context.Context, alert.Alert) error { return nil }
	for name, cfg := range map[string]alert.Config{
		"store": {Name: "shop", Hook: hook},
		"name":  {Store: s, Hook: hook},
		"line":  {Store: s, Name: "a\nb", Hook: hook},
		"hook":  {Store: s, Name: "shop"},
	} {
		if err := alert.Run(t.Context(), cfg); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
