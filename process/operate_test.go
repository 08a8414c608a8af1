package process_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// by is an operator.
func (b *booklet) by(name, why string) process.Operator { return b.look.Operator(name, why) }

// did waits for the answer to an act, and returns it in words.
func (b *booklet) did(a process.Asked, err error) string {
	b.Helper()
	if err != nil {
		return "error: " + err.Error()
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	got, err := b.look.Answer(ctx, a)
	switch {
	case err != nil:
		return "no answer: " + err.Error()
	case !got.Done:
		return "refused: " + got.Text
	case got.Text != "":
		return "done: " + got.Text
	}
	return "done"
}

func (b *booklet) wantDid(what, got, want string) {
	b.Helper()
	if !strings.HasPrefix(got, want) {
		b.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// entries are the index of open instances, in words.
func (b *booklet) entries() (all []string) {
	b.Helper()
	for x, err := range b.look.Open(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		word := x.ID + " " + string(x.Status)
		if x.Status == process.Stuck {
			word += " at " + x.Step + ": " + x.Error
		}
		all = append(all, word)
	}
	return all
}

func (b *booklet) wantEntries(want ...string) {
	b.Helper()
	if got := b.entries(); !slices.Equal(got, want) {
		b.Errorf("open: got %q, want %q", got, want)
	}
}

// An act is answered by the document: done, refused, or not yet.
func TestActsAreAnswered(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		ctx := b.Context()
		b.start(tour{ID: "t1"})
		b.wantDid("retry of what is not stuck", b.did(b.by("ada", "").Retry(ctx, "t1", "01")), `error: process: retry tour "t1": step 01 book is not stuck: it is completed`)
		b.wantDid("retry of what has not begun", b.did(b.by("ada", "").Retry(ctx, "t1", "07")), `error: process: retry tour "t1": no step 07 has begun`)
		b.wantDid("rerun of no step", b.did(b.by("ada", "").Rerun(ctx, "t1", "99")), `error: process: rerun tour "t1": no step 99: version 3 of the plan has none`)
		b.wantDid("skip of no step", b.did(b.by("ada", "").Skip(ctx, "t1", "", nil)), `error: process: skip tour "t1": no step "": want its path`)
		b.wantDid("skip with text", b.did(b.by("ada", "").Skip(ctx, "t1", "01", []byte("hello"))), `error: process: skip tour "t1": the result is not JSON`)
		b.wantDid("rerun of what runs", b.did(b.by("ada", "").Rerun(ctx, "t1", "01")), "refused: it has not ended and is not stuck")
		b.wantDid("nudge", b.did(b.by("ada", "slow").Nudge(ctx, "t1")), "done")
		b.wantDid("signal", b.did(b.by("ada", "").Signal(ctx, "t1", "test.ready.v1", []byte(`{"by":"bob"}`))), "done: it is kept for a step that has not begun")
		b.app.Advance(time.Minute)
		s := b.stream("t1")
		if s.Status != process.Completed || s.Notes[len(s.Notes)-1].Why != "slow" {
			t.Errorf("got %s and notes %+v", s.Status, s.Notes)
		}
		b.wantDid("signal after the end", b.did(b.by("ada", "").Signal(ctx, "t1", "test.ready.v1", []byte(`{"by":"bob"}`))), "refused: nobody hears it")
		b.wantDid("cancel after the end", b.did(b.by("ada", "late").Cancel(ctx, "t1")), "refused: it has ended")

		b.start(tour{ID: "t2"})
		b.wantDid("cancel", b.did(b.by("ada", "rain").Cancel(ctx, "t2")), "done")
		b.wantDid("cancel of what is cancelled", b.did(b.by("bob", "hail").Cancel(ctx, "t2")), "done: it was canceled before, by ada")

		if _, err := b.by("ada", "").Cancel(ctx, "t9"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("no such instance: got %v", err)
		}
		b.wantDid("a long note", b.did(b.by("ada", strings.Repeat("x", 501)).Cancel(ctx, "t2")), "error: ")
		b.wantDid("a blank ID", b.did(b.by("ada", "").Signal(ctx, " ", "test.ready.v1", []byte("{}"))), `error: process: signal tour " ": it is blank`)
		b.wantDid("no kind", b.did(b.by("ada", "").Signal(ctx, "t2", "", []byte("{}"))), "error: ")
		b.wantDid("no JSON", b.did(b.by("ada", "").Signal(ctx, "t2", "test.ready.v1", []byte("{"))), "error: ")
	})
}

// Nobody answers while no worker runs. The act is kept.
func TestActsWait(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1"})
		b.app.Stop()
		asked, err := b.by("ada", "rain").Cancel(b.Context(), "t1")
		b.wantDid("while no worker runs", b.did(asked, err), `no answer: process: cancel tour "t1": context deadline exceeded`)
		if err := b.tours.StartNew(b.Context(), "t2", tour{ID: "t2"}); err != nil {
			t.Fatal(err)
		}
		b.wantDid("before the start", b.did(b.by("ada", "").Cancel(b.Context(), "t2")), `error: process: cancel tour "t2": it has not started yet`)
		b.app.Start()
		if got := b.did(asked, nil); got != "done" {
			t.Errorf("later: got %q, want done", got)
		}
	})
}

// An act that waits for a worker has its answer, too, and so has a signal.
func TestActsThatWaitAreAnswered(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		ctx := b.Context()
		b.start(tour{ID: "t1"})
		b.app.Stop()
		rerun, err := b.by("ada", "").Rerun(ctx, "t1", "01")
		b.wantDid("rerun while no worker runs", b.did(rerun, err), "no answer: ")
		b.app.Start()
		b.wantDid("rerun", b.did(rerun, nil), "refused: it has not ended and is not stuck")
		b.signal("t1")
		b.app.Advance(time.Minute)
		b.app.Stop()
		late, err := b.by("ada", "").Signal(ctx, "t1", "test.ready.v1", []byte(`{"by":"bob"}`))
		b.wantDid("signal while no worker runs", b.did(late, err), "no answer: ")
		b.app.Start()
		b.wantDid("signal", b.did(late, nil), "refused: nobody hears it")
	})
}

// The index shows the step of a part that is stuck, and that can be acted on by its line.
func TestStuckParts(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		ctx := b.Context()
		b.signal("t1") // early
		b.start(tour{ID: "t1", Stops: []string{"a", "b", "c"}, Stick: "b"})
		b.app.Advance(time.Minute)
		const part, step = "05.01.01.00001", "05.01.01.00001/02"
		b.wantEntries("t1 stuck at " + step + ": panic: no memory")
		if x := line(t, b.stream("t1"), step); x.Status != process.Stuck || x.Msg != "panic: no memory" {
			t.Errorf("got %+v", x)
		}
		b.wantDid("retry of a part", b.did(b.by("ada", "").Retry(ctx, "t1", part)), `error: process: retry tour "t1": 05.01.01.00001 is a part: name a step of it`)
		b.wantDid("retry of another run", b.did(b.by("ada", "").Retry(ctx, "t1", step+"~1")), `error: process: retry tour "t1": no step 05.01.01.00001/02~1: name 02, its last run`)
		b.wantDid("retry", b.did(b.by("ada", "").Retry(ctx, "t1", step)), "done")
		b.wantEntries("t1 stuck at " + step + ": panic: no memory")
		b.wantDid("skip", b.did(b.by("ada", "never mind").Skip(ctx, "t1", step, nil)), "done")
		b.app.Drain()
		b.wantEntries()
		s := b.stream("t1")
		if x := line(t, s, step); s.Status != process.Completed || x.Status != "skipped" {
			t.Errorf("got %s and %+v", s.Status, x)
		}
	})
}

// A stuck instance is in the index with its step and the reason. It can be retried by the step's line of each run.
func TestStuckInstances(t *testing.T) {
	broken := true
	onTour(t, func(p *process.Plan[tour]) {
		process.Then(p, "look", func(s tour) tour { return s })
		process.Then(p, "think", func(s tour) tour {
			if broken {
				panic("no idea")
			}
			return s
		})
	}, func(b *booklet) {
		ctx := b.Context()
		b.start(tour{ID: "t1"})
		b.wantEntries("t1 stuck at 02: panic: no idea")
		b.wantDid("rerun", b.did(b.by("ada", "").Rerun(ctx, "t1", "01")), "done")
		b.app.Drain()
		b.wantEntries("t1 stuck at 02~1: panic: no idea")
		b.wantDid("retry of the first run", b.did(b.by("ada", "").Retry(ctx, "t1", "02~0")), `error: process: retry tour "t1": no step 02~0: name 02~1`)
		known, err := b.look.Versions(ctx)
		if err != nil || len(known) != 1 || known[0].Version != 3 || known[0].Open != 1 || known[0].Stuck != 1 || known[0].Steps != 2 {
			t.Errorf("versions: got %+v, %v", known, err)
		}
		broken = false
		b.wantDid("retry", b.did(b.by("ada", "").Retry(ctx, "t1", "02~1")), "done")
		b.app.Drain()
		b.wantEntries()
		n := 0
		for x, err := range b.look.Ended(ctx, time.Now()) {
			if err != nil || x.ID != "t1" || x.Status != process.Completed {
				t.Errorf("ended: got %+v, %v", x, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("ended: got %d instances, want 1", n)
		}
	})
}

// The kinds that a plan's steps wait for, and its open instances, are known without its code.
func TestVersions(t *testing.T) {
	g := &guide{}
	onTour(t, g.plan, func(b *booklet) {
		b.start(tour{ID: "t1"})
		kinds, err := b.look.Waits(b.Context())
		if err != nil || len(kinds) != 1 || !strings.Contains(string(kinds["test.ready.v1"]), `"by"`) {
			t.Errorf("kinds: got %s, %v", kinds, err)
		}
		rows := b.app.Store().Table("tour-plans")
		if err := rows.Delete(b.Context(), "versions", "000003", storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		known, err := b.look.Versions(b.Context())
		if err != nil || len(known) != 1 || known[0].Version != 3 || known[0].Steps != 0 || known[0].Open != 1 {
			t.Errorf("without its row: got %+v, %v", known, err)
		}
	})
}

func TestPlanOf(t *testing.T) {
	t.Parallel()
	for kind, want := range map[channel.Kind]string{"process.tour.start": "tour", "process.tour.done": "", "process.start": "", "tour.start": "", "process.a.b.start": "", "process..start": "", "": ""} {
		if got, ok := process.PlanOf(kind); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %v, want %q", kind, got, ok, want)
		}
	}
}

// A signal that can't be read, early or late, is noted with the reason. The step waits on, and takes a good one.
func TestSignalsThatCantBeRead(t *testing.T) {
	each(t, func(_ *crew, p *process.Plan[note]) {
		process.Wait(p, "first", note.goOn)
		process.Wait(p, "second", note.goOn).Within(time.Hour)
	}, func(l *lab) {
		ctx := l.t.Context()
		send := func(body string) process.Answer {
			asked, err := l.operator("ada", "").Signal(ctx, "i", "test.goon.v1", []byte(body))
			l.ok(err)
			l.app.Drain()
			answer, err := l.looker().Answer(ctx, asked)
			l.ok(err)
			return answer
		}
		l.start("i")
		for range 2 {
			if got := send(`{"by":7}`); got.Done || !strings.HasPrefix(got.Text, "it can't be read: ") {
				l.t.Errorf("a bad signal: got %+v", got)
			}
			l.want("i", process.InProcess, strings.Join(l.get("i").State.Did, ", "))
			if got := send(`{"by":"ada"}`); !got.Done {
				l.t.Errorf("a good signal: got %+v", got)
			}
		}
		l.want("i", process.Completed, "go on ada, go on ada")

		for _, body := range []string{`{"by":7}`, `{"by":[]}`, `{"by":"bob"}`, `{"by":8}`} {
			asked, err := l.operator("ada", "").Signal(ctx, "j", "test.goon.v1", []byte(body))
			l.ok(err)
			l.app.Drain()
			_, err = l.looker().Answer(ctx, asked)
			l.ok(err)
		}
		l.start("j")
		l.want("j", process.InProcess, "go on bob")
		s, err := l.looker().Stream(ctx, "j")
		l.ok(err)
		if len(s.Notes) != 3 || len(s.Early) != 0 || s.Notes[2].Do != "unheard" || !strings.HasPrefix(s.Notes[2].Why, "it can't be read: ") {
			l.t.Errorf("got the notes %+v, and early %v", s.Notes, s.Early)
		}
		l.app.Advance(2 * time.Hour) // the time of the step is still over
		l.want("j", process.Aborted, "go on bob")
	})
}
