package process_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// An instance is found once, where it is now: among the open ones, or on the day when it has ended.
func TestFind(t *testing.T) {
	broken := true
	onTour(t, func(p *process.Plan[tour]) {
		p.Tags(func(s tour) map[string]string { return map[string]string{"of": s.ID} })
		process.Then(p, "look", func(s tour) tour {
			if s.Stick != "" && broken {
				panic("no idea")
			}
			return s
		})
		process.Wait[tour, ready](p, "end", nil).Within(100 * time.Hour)
	}, func(b *booklet) {
		find := func(q process.Query) string {
			var all []string
			for x, err := range b.look.Find(b.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, x.ID+" "+string(x.Status))
			}
			return strings.Join(all, ", ")
		}
		want := func(what, want string, q process.Query) {
			t.Helper()
			if got := find(q); got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		b.start(tour{ID: "t1"})
		b.start(tour{ID: "t2"})
		b.start(tour{ID: "u1", Stick: "look"})
		b.signal("t1")
		b.app.Advance(30 * time.Hour)
		b.signal("t2")
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		want("open", "u1 stuck", process.Query{})
		want("of a status", "", process.Query{Status: process.InProcess})
		want("since an hour", "u1 stuck, t2 completed", process.Query{Since: ago(time.Hour)})
		want("since two days", "u1 stuck, t2 completed, t1 completed", process.Query{Since: ago(48 * time.Hour)})
		want("ended well", "t2 completed, t1 completed", process.Query{Status: process.Completed, Since: ago(48 * time.Hour)})
		want("with a prefix", "t2 completed, t1 completed", process.Query{Prefix: "t", Since: ago(48 * time.Hour)})
		want("with a tag", "t1 completed", process.Query{Tags: map[string]string{"of": "t1"}, Since: ago(48 * time.Hour)})
		want("as it was a day ago", "u1 stuck, t1 completed", process.Query{Since: ago(48 * time.Hour), Now: ago(24 * time.Hour)})
		if got := b.did(b.by("ada", "").Rerun(b.Context(), "t1", "02")); got != "done" {
			t.Fatal(got)
		}
		b.app.Drain()
		want("run again", "t1 inprocess, u1 stuck, t2 completed", process.Query{Since: ago(48 * time.Hour)})
		want("that waits", "t1 inprocess", process.Query{Waits: "end"})
		b.signal("t1")
		want("run again to the end", "u1 stuck, t1 completed, t2 completed", process.Query{Since: ago(48 * time.Hour)})
	})
}

// Law 18: the index is right in the end, also if a record that has read an older document writes last.
func TestLaw18IndexIsRightInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool // the first write of the row is; others, such as a sweep's, don't wait for it
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put row" && op.Resource == "row tour-index/open/t1" {
				if slow.CompareAndSwap(false, true) {
					pause(t.Context(), time.Minute)
				}
			}
			return do()
		})
		w := worldtest.NewBare(t, s, handlers.Config{}, process.Route("tour"))
		err := process.Register(w.Registry, "tour", process.Version(1, func(p *process.Plan[tour]) { process.Wait[tour, ready](p, "end", nil) }))
		if err != nil {
			t.Fatal(err)
		}
		stop := w.Start(worker.Config{})
		tours := process.Open[tour](w.Channels, "tour")
		if err := tours.Start(t.Context(), "t1", tour{ID: "t1"}); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), 5*time.Second)
		if err := tours.Cancel(t.Context(), "t1", "ada", ""); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), 2*time.Minute)
		l, err := process.Look(s, "tour", "/test")
		if err != nil {
			t.Fatal(err)
		}
		var got []process.Status
		for x, err := range l.Find(t.Context(), process.Query{Since: time.Now().Add(-time.Hour)}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, x.Status)
		}
		if !slices.Equal(got, []process.Status{process.Canceled}) {
			t.Errorf("got rows of %v, want one of %s", got, process.Canceled)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
