package process_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// A row that is written late, from a document that was read before the end, doesn't stay in the index.
func TestIndexIsNotBehindForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		goOn := make(chan struct{})
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put row" && strings.HasSuffix(op.Resource, "/open/o17") && held.CompareAndSwap(false, true) {
				<-goOn
			}
			return do()
		})
		w := worldtest.NewBare(t, s, handlers.Config{}, process.Route("late"))
		plan := func(p *process.Plan[order]) { process.Wait(p, "picked", order.picked) }
		if err := process.Register(w.Registry, "late", process.Version(1, plan)); err != nil {
			t.Fatal(err)
		}
		stop := w.Start(worker.Config{})
		orders := process.Open[order](w.Channels, "late")
		if err := orders.Start(t.Context(), "o17", order{ID: "o17"}); err != nil {
			t.Fatal(err)
		}
		worldtest.Eventually(t, func() error {
			if !held.Load() {
				return errors.New("no row is written")
			}
			return nil
		})
		if err := orders.Signal(t.Context(), "o17", picked{"ada"}); err != nil {
			t.Fatal(err)
		}
		look, err := process.Look(s, "late", "/test")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"o17 completed"}
		worldtest.Eventually(t, func() error {
			if got := indexed(t, look); !slices.Equal(got, want) {
				return fmt.Errorf("got %v, want %v", got, want)
			}
			return nil
		})
		close(goOn)
		time.Sleep(time.Minute)
		if got := indexed(t, look); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Where a store writes a document and a row at once, the row of an instance that goes on needs no message.
func TestRowIsWrittenWithTheDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, process.Route("exact"))
		plan := func(p *process.Plan[order]) {
			p.Tags(func(o order) map[string]string { return map[string]string{"order": o.ID} })
			process.Sleep(p, "a while", time.Hour)
			process.Wait(p, "picked", order.picked)
		}
		if err := process.Register(w.Registry, "exact", process.Version(1, plan)); err != nil {
			t.Fatal(err)
		}
		stop := w.Start(worker.Config{Consume: []string{"exact", "exact-alarms"}})
		if err := process.Open[order](w.Channels, "exact").Start(t.Context(), "o17", order{ID: "o17"}); err != nil {
			t.Fatal(err)
		}
		look, err := process.Look(w.Store, "exact", "/test")
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"a while", "picked"} {
			time.Sleep(50 * time.Minute)
			n := 0
			for x, err := range look.Open(t.Context()) {
				if n++; err != nil || !slices.Equal(x.Waits, []string{step}) || x.Tags["order"] != "o17" || x.Status != process.InProcess {
					t.Errorf("want o17 waiting for %s, got %+v, %v", step, x, err)
				}
			}
			if n != 1 {
				t.Errorf("got %d rows, want 1", n)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// indexed returns the rows of the index, those of instances that ended today included.
func indexed(t *testing.T, look *process.Looker) (all []string) {
	t.Helper()
	for _, part := range []iter.Seq2[process.Entry, error]{look.Open(t.Context()), look.Ended(t.Context(), time.Now())} {
		for x, err := range part {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x.ID+" "+string(x.Status))
		}
	}
	return all
}

// Law 18. The index shows the step of an agent that works for long, some seconds after it has begun.
func TestIndexShowsASlowAgent(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "quick")
		c.do(p, "slow")
	}, func(l *lab) {
		l.when("slow", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(50 * time.Second):
			case <-ctx.Done():
			}
			return "slow", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		l.pass(20 * time.Second)
		for x, err := range l.looker().Open(l.t.Context()) {
			if err != nil || !slices.Equal(x.Waits, []string{"slow"}) {
				l.t.Errorf("want i waiting for slow, got %+v, %v", x, err)
			}
		}
		l.app.Advance(time.Minute)
		l.want("i", process.Completed, "quick, slow")
	})
}
