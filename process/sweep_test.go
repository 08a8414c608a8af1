package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

// entries returns the index of the plan, open and ended, by ID.
func entries(l *lab, days ...time.Time) map[string]process.Entry {
	l.t.Helper()
	all := map[string]process.Entry{}
	add := func(e process.Entry, err error) {
		l.ok(err)
		if old, twice := all[e.ID]; twice {
			l.t.Errorf("index: %s has two rows: %+v and %+v", e.ID, old, e)
		}
		all[e.ID] = e
	}
	for e, err := range l.looker().Open(l.t.Context()) {
		add(e, err)
	}
	for _, d := range days {
		for e, err := range l.looker().Ended(l.t.Context(), d) {
			add(e, err)
		}
	}
	return all
}

// wantIndex compares the index with the documents.
func wantIndex(l *lab) {
	l.t.Helper()
	want, days := map[string]string{}, map[string]time.Time{}
	for b, err := range l.app.Store().Blobs(planName).List(l.t.Context(), "") {
		l.ok(err)
		d := document(l, b.Key)
		if strings.Contains(b.Key, "/") || d.Purged || d.Status == process.Init {
			continue
		}
		if want[b.Key] = fmt.Sprint(d.Status, " ", d.Seq); !d.Ended.IsZero() {
			days[d.Ended.Format(time.DateOnly)] = d.Ended
		}
	}
	var all []time.Time
	for _, d := range days {
		all = append(all, d)
	}
	got := entries(l, all...)
	for id, e := range got {
		if x := fmt.Sprint(e.Status, " ", e.Seq); x != want[id] {
			l.t.Errorf("index: %s is %q, and its document %q", id, x, want[id])
		}
	}
	for id := range want {
		if _, ok := got[id]; !ok {
			l.t.Errorf("index: %s has no row", id)
		}
	}
}

// Law 18. When everything has settled, the index equals the documents: of instances that wait, have ended, are stuck,
// are undone, and of those whose row changes many times in a moment.
func TestIndexEqualsDocuments(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		p.Tags(func(n note) map[string]string { return map[string]string{"did": strings.Join(n.Did, " ")} })
		c.undoable(p, "a")
		for i := range 6 {
			process.Wait(p, fmt.Sprint("wait ", i), note.goOn)
		}
		c.do(p, "b").Attempts(1)
	}, func(l *lab) {
		for i := range 24 {
			id := fmt.Sprint("i", i)
			l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{}}))
			for range i % 8 {
				l.ok(l.notes.Signal(l.t.Context(), id, goOn{"ada"}))
			}
			if i%5 == 0 {
				l.ok(l.notes.Cancel(l.t.Context(), id, "ada", "enough"))
			}
		}
		l.when("b", func(ctx context.Context) (string, error) {
			if process.ID(ctx) == "i7" {
				return "", errors.New("no")
			}
			return "b", nil
		})
		l.app.Drain()
		wantIndex(l)
		l.app.Advance(7 * time.Hour)
		wantIndex(l)
		if e := entries(l, time.Now()); e["i6"].Tags["did"] != strings.TrimSpace("a "+strings.Repeat("go on ada ", 6)+"b") {
			l.t.Errorf("tags: got %q", e["i6"].Tags)
		}
	})
}

// Laws 17 and 18. A row of the index that is lost, or stale, is mended within a day, and what depends on it.
func TestIndexIsMended(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Wait(p, "wait", note.goOn).Within(100 * day)
		c.do(p, "a")
	}, func(l *lab) {
		ctx := l.t.Context()
		for _, id := range []string{"lost", "stale", "ended", "gone"} {
			l.start(id)
		}
		rows := l.app.Store().Table(planName + "-index")
		stale, err := rows.Get(ctx, "open", "ended")
		l.ok(err)
		l.signal("ended", "ada")
		wantIndex(l)

		l.ok(rows.Delete(ctx, "open", "lost", storage.Condition{}))
		_, err = rows.Put(ctx, "open", "ended", stale.Data, storage.Condition{}) // beside its row among the ended ones
		l.ok(err)
		var x process.Entry
		l.ok(json.Unmarshal(stale.Data, &x))
		x.ID, x.Seq, x.Status = "stale", 0, process.Stuck
		data, err := json.Marshal(x)
		l.ok(err)
		_, err = rows.Put(ctx, "open", "stale", data, storage.Condition{})
		l.ok(err)
		l.pause(25 * time.Hour)
		wantIndex(l)
	})
}

// Law 17. Any number of programs ask for sweeps, and there is one chain of them.
func TestSweepsAreOneChain(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a") }, func(l *lab) {
		for range 5 {
			l.app.Restart()
			l.app.Drain()
			l.app.Advance(3 * time.Minute)
		}
		l.app.Send(flow.Sweep{Plan: planName, At: time.Now().UTC().Truncate(10 * time.Minute)}, flow.Sweep{Plan: planName, At: time.Now().UTC()})
		l.app.Advance(time.Hour)
		st, err := l.app.Store().Queue(planName + "-record").Stats(l.t.Context())
		l.ok(err)
		if n := st.Ready + st.InFlight + st.Delayed; n != 1 {
			l.t.Errorf("%d sweeps are to come, want one", n)
		}
	})
}

// Law 17. A sweep only asks: an instance that is on time gets nothing, and one that is late is nudged once a sweep.
func TestSweepOnlyAsks(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { process.Wait(p, "wait", note.goOn).Within(2 * time.Hour) }, func(l *lab) {
		l.start("i")
		before, err := l.app.Store().Blobs(planName).Get(l.t.Context(), "i", "")
		l.ok(err)
		l.app.Advance(time.Hour)
		after, err := l.app.Store().Blobs(planName).Get(l.t.Context(), "i", "")
		l.ok(err)
		if before.ETag != after.ETag {
			l.t.Errorf("six sweeps have changed the document:\n%s\n%s", before.Body, after.Body)
		}
	})
}

// Law 17. A clock was ahead by a month for a moment: a sweep was noted, or asked for, by that clock. Sweeps go on once
// the clock is right, and so does the reading of all documents.
func TestSweepsGoOnAfterAClockThatWasAhead(t *testing.T) {
	parttest.InTurn(t)
	for what, by := range map[string]struct{ noted, asked bool }{"noted": {true, false}, "asked for": {false, true}, "both": {true, true}} {
		t.Run(what, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) { process.Wait(p, "wait", note.goOn).Within(2 * time.Hour) }, func(l *lab) {
				l.start("i")
				l.app.Stop()
				time.Sleep(3 * time.Hour) // in a bubble
				purge(l, "plan-alarms")
				wrong := time.Now().UTC().Add(30 * day)
				if by.noted {
					row, err := json.Marshal(map[string]any{"at": wrong, "by": "a message", "read": wrong})
					l.ok(err)
					_, err = l.app.Store().Table("plan-plans").Put(l.t.Context(), "sweep", "last", row, storage.Condition{})
					l.ok(err)
				}
				if by.asked {
					purge(l, "plan-record")
					l.app.Send(flow.Sweep{Plan: planName, At: wrong})
				}
				l.app.Start()
				l.app.Drain()
				l.app.Advance(21 * time.Minute)
				l.want("i", process.Aborted, "")
				l.ok(l.app.Store().Table("plan-index").Delete(l.t.Context(), "ended-"+time.Now().UTC().Format(time.DateOnly), "i", storage.Condition{}))
				l.app.Advance(25 * time.Hour)
				wantIndex(l)
			})
		})
	}
}

// The retention of an instance ends even where its alarm was lost: the sweep asks.
func TestLostPurge(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a") }, func(l *lab) {
		l.start("i")
		l.app.Stop()
		time.Sleep(31 * day) // in a bubble
		purge(l, "plan-alarms")
		l.app.Start()
		l.app.Drain()
		l.pause(25 * time.Hour)
		if d := document(l, "i"); !d.Purged {
			l.t.Errorf("after its retention: got %s, with its steps", d.Status)
		}
		keys := slices.Collect(func(yield func(string) bool) {
			for id := range entries(l, time.Now(), time.Now().Add(-32*day)) {
				if !yield(id) {
					return
				}
			}
		})
		if len(keys) > 0 {
			l.t.Errorf("index: got %v, want nothing", keys)
		}
	})
}

// Somebody read the document before the purge, and writes its row after the purge. The next sweep deletes the row.
func TestLateRowOfATombstone(t *testing.T) {
	parttest.InTurn(t)
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a") }, func(l *lab) {
		ctx, rows := l.t.Context(), l.app.Store().Table(planName+"-index")
		l.start("i")
		partition := "ended-" + time.Now().UTC().Format(time.DateOnly)
		row, err := rows.Get(ctx, partition, "i")
		l.ok(err)
		l.app.Advance(31 * day)
		if d := document(l, "i"); !d.Purged {
			l.t.Fatalf("after its retention: got %s, with its steps", d.Status)
		}
		_, err = rows.Put(ctx, partition, "i", row.Data, storage.Condition{IfAbsent: true})
		l.ok(err)
		l.app.Advance(25 * time.Hour)
		if _, err := rows.Get(ctx, partition, "i"); !errors.Is(err, storage.ErrNotFound) {
			l.t.Errorf("the row of a tombstone is in the index: %v", err)
		}
	})
}

// A document that is nobody's, and tags that no row holds, keep a sweep from nothing.
func TestSweepGoesOnWithTheOthers(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		p.Tags(func(n note) map[string]string {
			return map[string]string{"did": strings.Repeat("x", 50_000*len(n.Did))}
		})
		process.Wait(p, "wait", note.goOn).Within(100 * day)
		process.Wait(p, "wait again", note.goOn).Within(100 * day)
	}, func(l *lab) {
		ctx := l.t.Context()
		l.start("tagged")
		l.signal("tagged", "ada")
		if got := entries(l)["tagged"].Tags["error"]; got != "Tags: 50003 bytes; want at most 4096" {
			l.t.Errorf("tags: got %q", got)
		}
		_, err := l.app.Store().Blobs(planName).Put(ctx, "alien", []byte("hello"), storage.Condition{})
		l.ok(err)
		l.start("lost")
		l.ok(l.app.Store().Table(planName+"-index").Delete(ctx, "open", "lost", storage.Condition{}))
		l.app.Advance(2 * day)
		if _, ok := entries(l)["lost"]; !ok {
			l.t.Error("the row of an instance after it was not mended")
		}
		l.wantPoison()
	})
}

// A step with many long failures fits into a row of the trail.
func TestTrailOfManyFailures(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Each(p, "items", func(note) []string { return slices.Repeat([]string{strings.Repeat("y", 1000)}, 100) },
			func(context.Context, string) (string, error) {
				return "", process.Refuse(errors.New(strings.Repeat("x", 600)))
			}, nil).Tolerate(100)
		for i := range 70 {
			process.Then(p, fmt.Sprint("then ", i), func(n note) note { return n })
		}
	}, func(l *lab) {
		l.start("i")
		l.want("i", process.Completed, "")
		l.wantPoison()
		s, err := l.looker().Stream(l.t.Context(), "i")
		l.ok(err)
		if x := line(l.t, s, "01"); x.Failed != 100 || len(s.Missing) > 0 {
			l.t.Errorf("got %+v, missing %q", x, s.Missing)
		}
	})
}
