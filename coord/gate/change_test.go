package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// wantErr fails the test unless err is of a kind and has these words.
func wantErr(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got error %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got error %v; want a word about %s", err, w)
		}
	}
}

// disturbed is a store whose first write of a gate is disturbed.
func disturbed(s *storage.Store, disturb func(op storagetest.Op, do func() error) error) *storage.Store {
	first := true
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name != "put blob" || !first {
			return do()
		}
		first = false
		return disturb(op, do)
	})
}

// A change is repeated until it is known to be done, and has its effect once.
func TestAChangeHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	lost := func(op storagetest.Op) error { return op.Fail(storage.ErrUnavailable) }
	for what, c := range map[string]struct {
		disturb func(t *testing.T, other *gate.Gate, op storagetest.Op, do func() error) error
		epoch   int64
		doubt   bool
	}{
		"fails": {epoch: 1, disturb: func(_ *testing.T, _ *gate.Gate, op storagetest.Op, _ func() error) error { return lost(op) }},
		"the answer is lost": {epoch: 1, disturb: func(_ *testing.T, _ *gate.Gate, op storagetest.Op, do func() error) error {
			_ = do()
			return lost(op)
		}},
		"somebody writes first": {epoch: 2, disturb: func(t *testing.T, other *gate.Gate, _ storagetest.Op, do func() error) error {
			shut(t, other)
			return do()
		}},
		"fails, and somebody else writes": {epoch: 2, disturb: func(t *testing.T, other *gate.Gate, op storagetest.Op, _ func() error) error {
			shut(t, other)
			return lost(op)
		}},
		"the answer is lost, and somebody closes it": {epoch: 2, doubt: true, disturb: func(t *testing.T, other *gate.Gate, op storagetest.Op, do func() error) error {
			_ = do()
			shut(t, other)
			return lost(op)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				other := gate.At(s, name)
				g := gate.At(disturbed(s, func(op storagetest.Op, do func() error) error { return c.disturb(t, other, op, do) }), name)
				err := g.Open(t.Context(), gate.Note{})
				st := stateOf(t, other)
				if st.Open == c.doubt || st.Epoch != c.epoch || st.Openings != 1 {
					t.Errorf("afterwards: %+v", st)
				}
				if c.doubt {
					wantErr(t, err, storage.ErrUnavailable, "is unknown", name)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Each change counts. Nothing is written, and a note stays, when the gate is as it shall be.
func TestChangesCount(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := gate.At(s, name)
		for i, c := range []struct {
			do          func()
			epoch, open int64
		}{
			{func() {}, 0, 0},
			{func() { shut(t, g) }, 1, 0}, // the first is written: it has a note
			{func() { shut(t, g) }, 1, 0},
			{func() { open(t, g) }, 2, 1},
			{func() { must(t, g.Open(t.Context(), gate.Note{By: "bob"})) }, 2, 1},
			{func() { shut(t, g) }, 3, 1},
			{func() { announce(t, g, time.Now().Add(time.Hour)) }, 4, 1},
			{func() { open(t, g) }, 5, 2},
			{func() { announce(t, g, time.Now()) }, 5, 2},
		} {
			time.Sleep(time.Second)
			c.do()
			if st := stateOf(t, g); st.Epoch != c.epoch || st.Openings != c.open || st.Epoch > 0 && st.By != "ada" {
				t.Errorf("step %d: %+v, want epoch %d, %d openings", i, st, c.epoch, c.open)
			}
		}
	})
}

// Any one call of a change fails, before its effect or after it.
func TestAnyCallOfAChangeFails(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for hit, n := true, int64(1); hit; n++ {
			hit = false
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				g := gate.At(storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Seq != n {
						return do()
					}
					hit = true
					if moment == storagetest.AfterEffect {
						_ = do()
					}
					return op.Fail(storage.ErrUnavailable)
				}), name)
				open(t, g)
				shut(t, g)
				if st := stateOf(t, gate.At(s, name)); st.Open || st.Epoch != 2 {
					t.Errorf("call %d fails %s: %+v", n, moment, st)
				}
			})
			if !hit && n < 7 {
				t.Errorf("there were %d calls only", n)
			}
		}
	}
}

// While the store fails, a change ends with an error soon.
func TestAChangeThatFails(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		g, began := gate.At(link.Store, name), time.Now()
		wantErr(t, g.Open(t.Context(), gate.Note{}), storage.ErrUnavailable, "open", name)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		end := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(end)
		wantErr(t, g.Close(ctx, gate.Note{}), end, "close", name)
		_, err := g.State(ctx)
		wantErr(t, err, end, name)
		wantErr(t, g.Wait(ctx), end, name)
	})
}

// A change that was written is told although its context has ended.
func TestAChangeIsToldAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var w waiters
		w.wait(t, seldom(t, s))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		must(t, gate.At(disturbed(s, func(_ storagetest.Op, do func() error) error { defer cancel(); return do() }), name).Open(ctx, gate.Note{}))
		w.want(t, time.Now(), time.Now())
	})
}

func TestNotes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		g := gate.At(s, name)
		for i, n := range []gate.Note{
			{}, {By: "Ada Lovelace", Why: "naïve <b>日本</b> \"quotes\""}, {By: strings.Repeat("é", 50), Why: strings.Repeat("x", 256)},
		} {
			must(t, g.Open(t.Context(), n))
			st := stateOf(t, g)
			if n.By == "" {
				n.By = st.By
			}
			if st.Note != n || n.By == "" || !st.Since.Equal(time.Now()) {
				t.Errorf("note %d: got %+v, want %+v", i, st, n)
			}
			shut(t, g)
		}
		before := stateOf(t, g)
		for _, n := range []gate.Note{{By: strings.Repeat("x", 101)}, {Why: strings.Repeat("x", 257)}, {By: "\xff"}, {Why: "two\nlines"}, {By: "\x1b[2J"}, {Why: "\u0085"}} {
			wantErr(t, g.Open(t.Context(), n), storage.ErrInvalid, name)
			wantErr(t, g.Close(t.Context(), n), storage.ErrInvalid, name)
			wantErr(t, g.OpenAt(t.Context(), time.Time{}, n), storage.ErrInvalid, name, "the time is zero")
		}
		wantErr(t, g.Open(t.Context(), gate.Note{By: "\xff", Why: "\n"}), storage.ErrInvalid, "By is", "Why is")
		if st := stateOf(t, g); st != before {
			t.Errorf("a refused note changed the gate: %+v", st)
		}
	})
}

// A document that somebody else wrote under a gate's name is never written over.
func TestABlobThatIsNoGate(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("gates")
		for key, body := range map[string]string{
			"text": "x", "empty": "", "null": "null", "lease": `{"holder":"a","id":"x","fence":9,"ttl":3000}`, "list": "[]", "two": `{"epoch":1}{"epoch":2}`,
			"negative": `{"epoch":-1}`, "end": `{"epoch":9223372036854775807}`, "both": `{"open":true,"opensAt":"2030-01-01T00:00:00Z","epoch":1}`,
			"openings": `{"epoch":1,"openings":2}`, "time": `{"epoch":1,"opensAt":"soon"}`, "long": `{"epoch":1,"why":"` + strings.Repeat("x", 9000) + `"}`,
		} {
			tag, err := blobs.Put(t.Context(), key, []byte(body), storage.Condition{})
			must(t, err)
			g := gate.At(s, key)
			words := []string{key, "not a gate; close it"}
			wantErr(t, g.Wait(t.Context()), storage.ErrInvalid, words...)
			wantErr(t, g.Open(t.Context(), gate.Note{}), storage.ErrInvalid, words...)
			wantErr(t, g.OpenAt(t.Context(), time.Now().Add(time.Hour), gate.Note{}), storage.ErrInvalid, words...)
			wantErr(t, g.Close(t.Context(), gate.Note{}), storage.ErrInvalid, words...)
			_, err = g.State(t.Context())
			wantErr(t, err, storage.ErrInvalid, words...)
			for _, err := range g.Watch(t.Context()) {
				wantErr(t, err, storage.ErrInvalid, words...)
			}
			if b, err := blobs.Get(t.Context(), key, ""); err != nil || b.ETag != tag {
				t.Errorf("it was written over: %s, %v", b.Body, err)
			}
		}
		_, err := blobs.Put(t.Context(), "newer", []byte(`{"epoch":1,"open":true,"since":"2026-01-01T00:00:00+02:00","later":7}`), storage.Condition{})
		must(t, err)
		must(t, gate.At(s, "newer").Wait(t.Context())) // a newer version may add fields
	})
}

// A bad name and a bad Config are refused at once, and nothing is asked of the store.
func TestFaults(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		s = storagetest.Intercept(s, calls.Hook)
		for _, bad := range []string{"", "a\nb", "\xff", strings.Repeat("x", 257)} {
			_, err := gate.New(s, bad, gate.Config{Metrics: prometheus.NewRegistry()})
			wantErr(t, err, storage.ErrInvalid, "key")
			g := gate.At(s, bad)
			_, err = g.State(t.Context())
			wantErr(t, err, storage.ErrInvalid, "key")
			for _, err := range g.Watch(t.Context()) {
				wantErr(t, err, storage.ErrInvalid, "key")
			}
			for _, err := range []error{g.Wait(t.Context()), g.Open(t.Context(), gate.Note{}), g.OpenAt(t.Context(), time.Now(), gate.Note{}), g.Close(t.Context(), gate.Note{})} {
				wantErr(t, err, storage.ErrInvalid, "key")
			}
		}
		if n := calls.Count(); n > 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		list := func(s *storage.Store) (all string) {
			for i, err := range gate.List(t.Context(), s) {
				all += fmt.Sprintf("%s open=%v err=%v; ", i.Name, i.Open, err != nil)
			}
			return all
		}
		if got := list(s); got != "" {
			t.Errorf("without a gate: %s", got)
		}
		open(t, gate.At(s, "b/ü"))
		shut(t, gate.At(s, "c"))
		_, err := s.Blobs("gates").Put(t.Context(), "a", []byte("x"), storage.Condition{})
		must(t, err)
		if got, want := list(s), "a open=false err=true; b/ü open=true err=false; c open=false err=false; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		link := storagetest.NewLink(s)
		link.Cut("get blob")
		if got, want := list(link.Store), "a open=false err=true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		link.Cut()
		if got, want := list(link.Store), " open=false err=true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for i := range gate.List(t.Context(), s) {
			if i.Name != "a" {
				t.Errorf("it went on to %s", i.Name)
			}
			break
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		r := prometheus.NewRegistry()
		g, err := gate.New(s, name, gate.Config{Metrics: r})
		must(t, err)
		again, err := gate.New(s, name, gate.Config{Metrics: r})
		must(t, err)
		want := func(waiting, opened float64) {
			t.Helper()
			families, err := r.Gather()
			must(t, err)
			got := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					got[f.GetName()+" "+m.GetLabel()[0].GetValue()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			if got["millrace_gate_waiting "+name] != waiting || got["millrace_gate_opened_total "+name] != opened || len(got) != 2 {
				t.Errorf("got %v, want %v waiting, %v opened", got, waiting, opened)
			}
		}
		var w waiters
		w.wait(t, g)
		w.wait(t, again)
		time.Sleep(time.Second)
		want(2, 0)
		announce(t, g, time.Now().Add(time.Hour))
		w.want(t, time.Now().Add(time.Hour), time.Now().Add(time.Hour))
		want(0, 1)
		r = prometheus.NewRegistry()
		must(t, r.Register(prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "millrace", Subsystem: "gate", Name: "waiting", Help: "Calls of Wait that wait for the gate to open."})))
		if _, err := gate.New(s, name, gate.Config{Metrics: r}); err == nil || !strings.Contains(err.Error(), "gate: metrics: ") {
			t.Errorf("a name that is taken: %v", err)
		}
	})
}
