package settings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law: a node's epoch only grows, and after a roll-back nobody applies that candidate again: not when the document of
// the roll-out comes back, and not when a node starts.
func TestLawAfterARollBackNobodyAppliesThatCandidateAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 3, nil)
		v := f.roll(0, 60)
		canary := f.canaries()[0]
		before := f.nodes[canary].State().Epoch
		old, err := s.Blobs("settings").Get(t.Context(), "shop/current", "")
		must(t, err)
		e, err := ledger(t, s).Back(t.Context(), -1, settings.By("bob", "it smells"))
		must(t, err)
		if want := []settings.Refusal{{Node: "bob", Why: "it smells"}}; e.Version != v || e.Result != settings.RolledBack || !slices.Equal(e.Reasons, want) {
			t.Errorf("got %+v", e)
		}
		time.Sleep(poll)
		wantSeats(t, 40, f.nodes...)
		if st := f.nodes[canary].State(); st.Epoch <= before || st.Staged || st.Version != 0 {
			t.Errorf("got %+v after epoch %d", st, before)
		}
		late := node(t, s, settings.Config{Name: "late"})
		_, err = s.Blobs("settings").Put(t.Context(), "shop/current", old.Body, storage.Condition{})
		must(t, err)
		time.Sleep(2 * poll)
		wantSeats(t, 40, append(f.nodes, late)...)
		if st := f.nodes[canary].State(); !strings.Contains(st.Fault, "was a backup restored?") {
			t.Errorf("got %+v", st)
		}
		young := node(t, s, settings.Config{Name: "young"}) // it doesn't know better, and brings the epoch forward
		for range 6 {
			time.Sleep(poll)
			wantSeats(t, 40, append(f.nodes, late, young)...)
		}
		f.ended(v, settings.RolledBack)
	})
}

// At each stage back drops the roll-out, and what was in force stays. Then another change may come.
func TestBackDropsARollOutAtAnyStage(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f, l := newFleet(t, s, 4, nil), ledger(t, s)
		_, err := f.nodes[0].Propose(t.Context(), settings.Note{Now: true}, seats(50))
		must(t, err)
		for stage := range 3 {
			v := f.roll(stage, 60)
			time.Sleep(time.Duration(stage)*(bake+4*poll) + time.Minute)
			if r := current(t, s).Rollout; r == nil || r.Stage != stage {
				t.Fatalf("stage %d: got %+v", stage, r)
			}
			_, err := f.nodes[0].Propose(t.Context(), ada, seats(70))
			wantErr(t, err, settings.ErrRolling, `drop it by "settings back --of shop"`)
			_, err = l.Back(t.Context(), -1, ada)
			must(t, err)
			f.ended(v, settings.RolledBack)
			time.Sleep(time.Second)
			wantSeats(t, 50, f.nodes...)
		}
		v := f.roll(1, 60)
		e, err := l.Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"seats": jsonText("80"), "half": jsonText("40")}, Force: true})
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 80, f.nodes...)
		if c := current(t, s); e.Result != settings.Forced || c.Ended[1].Version != v || c.Ended[1].Result != settings.RolledBack || c.Ended[1].Reasons[0].Node != "ada" {
			t.Errorf("got %+v", c)
		}
		f.roll(1, 60)
		_, err = l.Back(t.Context(), 0, ada)
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 40, f.nodes...)
	})
}

// Law: nodes run the version in force, or the candidate. A node that starts during a roll-out begins with what is in
// force, is asked, and holds up the roll-out until it has answered. Its no ends it.
func TestLawALateNodeIsAsked(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 3, nil)
		v := f.roll(0, 60)
		type older struct {
			Seats int `json:"seats"`
			Half  int `json:"half"`
		}
		late, err := settings.Open(t.Context(), s, name, older{Seats: 40}, settings.Config{Name: "late", Patience: time.Minute})
		must(t, err)
		defer func() { must(t, late.Close(context.WithoutCancel(t.Context()))) }()
		answer := make(chan error)
		late.Changing(func(context.Context, older, older) error { return <-answer })
		time.Sleep(50 * time.Second)
		if late.Now().Seats != 40 {
			t.Errorf("got %+v", late.Now())
		}
		if r := current(t, s).Rollout; r == nil || r.Stage != 0 || r.Why != "late has not answered" {
			t.Errorf("got %+v", r)
		}
		answer <- nil
		time.Sleep(3 * (bake + 4*poll))
		f.ended(v, settings.InForce)
		wantSeats(t, 60, f.nodes...)
		if late.Now().Seats != 60 {
			t.Errorf("got %+v", late.Now())
		}
	})
}

// A node that comes late and says no ends a roll-out: it is in force nowhere without its yes.
func TestALateNoEndsARollOut(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 3, nil)
		e, err := f.nodes[0].Propose(t.Context(), ada, func(s *shop) { s.Seats, s.Half, s.Mail.From = 60, 30, "ada" })
		must(t, err)
		synctest.Wait()
		type older struct {
			Seats   int             `json:"seats"`
			Half    int             `json:"half"`
			Workers int             `json:"workers"`
			Key     settings.Secret `json:"key"`
		}
		late, err := settings.Open(t.Context(), s, name, older{Seats: 40}, settings.Config{Name: "late"})
		must(t, err)
		defer func() { must(t, late.Close(context.WithoutCancel(t.Context()))) }()
		time.Sleep(2 * poll)
		end := f.ended(e.Version, settings.RolledBack)
		if end.Reasons[0].Node != "late" || !strings.Contains(end.Reasons[0].Why, `unknown member "mail"`) {
			t.Errorf("got %+v", end)
		}
		wantSeats(t, 40, f.nodes...)
	})
}

// The node that drives a roll-out dies, and another one goes on. The bake so far counts, and no more than the time.
func TestADriverThatDiesIsFollowed(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 6, nil)
		v := f.roll(0, 60)
		began := time.Now()
		time.Sleep(bake / 2)
		c := current(t, s)
		var doc struct {
			Candidate struct{ Roll struct{ Driver string } }
		}
		blob, err := s.Blobs("settings").Get(t.Context(), "shop/current", "")
		must(t, err)
		must(t, json.Unmarshal(blob.Body, &doc))
		nodes, err := ledger(t, s).Nodes(t.Context())
		must(t, err)
		driver := slices.IndexFunc(nodes, func(n settings.Node) bool { return n.ID == doc.Candidate.Roll.Driver })
		if driver < 0 || c.Rollout.Baked < bake/2-3*poll {
			t.Fatalf("got %+v, driven by %q", c.Rollout, doc.Candidate.Roll.Driver)
		}
		f.links[driver].Cut()
		time.Sleep(bake/2 - 2*time.Second)
		if c = current(t, s); slices.Contains(f.canaries(), driver) {
			f.ended(v, settings.RolledBack) // the driver was a canary, so its death is illness
			return
		}
		if c.Rollout == nil || c.Rollout.Stage != 0 || c.Rollout.Baked > time.Since(began) || c.Rollout.Baked < 7*bake/10 {
			t.Errorf("after %v: got %+v", time.Since(began), c.Rollout)
		}
		time.Sleep(3*bake + 12*poll)
		f.ended(v, settings.InForce)
	})
}

// A canary that stops in order is no ill one. When the last one has stopped, others begin, and bake from the beginning.
func TestCanariesThatStopAreReplaced(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 4, nil)
		v := f.roll(0, 60)
		time.Sleep(bake - time.Second)
		first := f.canaries()
		must(t, f.nodes[first[0]].Close(t.Context()))
		time.Sleep(2 * poll)
		if r := current(t, s).Rollout; r == nil || r.Stage != 0 || r.Baked > 2*poll || len(f.canaries()) != 2 {
			t.Fatalf("got %+v, canaries %v (one of them closed)", r, f.canaries())
		}
		time.Sleep(3*bake + 12*poll)
		f.ended(v, settings.InForce)
	})
}

// Law: nodes run the version in force or the candidate, until it has come into force or was taken back. A setting that
// waits for a restart has no part in a roll-out: a node that starts has the version in force.
func TestASettingThatNeedsARestartWaitsForTheEndOfARollOut(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 2, nil)
		e, err := f.nodes[0].Propose(t.Context(), ada, func(s *shop) { s.Seats, s.Half, s.Workers = 60, 30, 8 })
		must(t, err)
		synctest.Wait()
		canary := f.nodes[f.canaries()[0]]
		select {
		case <-canary.Restart():
			t.Error("a canary waits for a restart")
		default:
		}
		if st := canary.State(); canary.Now().Workers != 2 || canary.Now().Seats != 60 || len(st.Waiting) > 0 {
			t.Errorf("got %+v, %+v", canary.Now(), st)
		}
		again := node(t, s, settings.Config{Name: "again"})
		if again.Now().Workers != 2 {
			t.Errorf("got %+v", again.Now())
		}
		_, err = ledger(t, s).Await(t.Context(), e.Version)
		must(t, err)
		time.Sleep(poll)
		for _, n := range append(f.nodes, again) {
			<-n.Restart()
			if n.Now().Workers != 2 || !slices.Equal(n.State().Waiting, []string{"workers"}) {
				t.Errorf("got %+v, %+v", n.Now(), n.State())
			}
		}
	})
}

// Clocks decide nothing: a node whose clock is wrong by years is one like others.
func TestClocksDecideNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 2, nil)
		stop, beats := make(chan struct{}), sync.WaitGroup{}
		beat := func(n int64, v *settings.Verdict) {
			row, err := json.Marshal(settings.Node{ID: "wild", Name: "wild", Poll: 30_000, Beats: n, At: time.Unix(n%2*4e9, 0).UTC(), Version: v.Version, Verdict: v,
				Health: &settings.Health{Version: v.Version}})
			must(t, err)
			_, err = s.Table("settings").Put(t.Context(), name, "wild", row, storage.Condition{})
			must(t, err)
		}
		beat(0, &settings.Verdict{Version: 1, Yes: true})
		beats.Go(func() {
			for n := int64(1); ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(poll):
					beat(n, &settings.Verdict{Version: 1, Yes: true})
				}
			}
		})
		v := f.roll(0, 60)
		time.Sleep(3 * (bake + 4*poll))
		f.ended(v, settings.InForce)
		close(stop)
		beats.Wait()
		wantSeats(t, 60, f.nodes...)
	})
}

// Stages that make no roll-out are refused, and a wait for the end of one ends with its context.
func TestBadStages(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		for want, stages := range map[string][]settings.Stage{
			"want shares that grow":       {{Percent: 50, Bake: time.Minute}, {Percent: 50, Bake: time.Minute}},
			"a bake of 1ms":               {{Percent: 100, Bake: time.Millisecond}},
			"-1 calls":                    {{Percent: 100, Bake: time.Minute, Calls: -1}},
			"100 percent in the last one": settings.InStages(time.Minute, 10, 50),
			"11 stages":                   settings.InStages(time.Minute, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100),
		} {
			_, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{Stages: stages})
			wantErr(t, err, storage.ErrInvalid, want)
		}
		f := newFleet(t, s, 3, nil)
		v := f.roll(0, 60)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := ledger(t, s).Await(ctx, v)
		wantErr(t, err, context.DeadlineExceeded, "version 1 is still being rolled out")
	})
}

// Law: what a node can't run never gets into its cache, which is written after the swap: a start would read it there.
func TestLawTheCacheIsWrittenAfterTheSwap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache")
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		before, err := os.ReadFile(path)
		must(t, err)
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"key": jsonText(`"env:MILLRACE_NO_SUCH"`)}, Force: true})
		must(t, err)
		time.Sleep(2 * poll)
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) || a.State().Fault == "" {
			t.Errorf("got %s, %v, want %s; %+v", after, err, before, a.State())
		}
	})
}

// A node runs a candidate only when its row says that it has agreed: if it dies of that, others know what it ran.
func TestTheRowSaysYesBeforeTheNodeRunsIt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		f := newFleet(t, s, 2, func(_ int, c *settings.Config) { c.Stages = settings.InStages(bake, 100) })
		f.roll(0, 60)
		var mute atomic.Bool
		late := node(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if mute.Load() && op.Name == "put row" {
				return storage.ErrUnavailable
			}
			if op.Name == "put row" {
				mute.Store(true) // it has started
			}
			return do()
		}), settings.Config{Name: "late"})
		time.Sleep(poll + time.Second)
		wantSeats(t, 40, late)
		mute.Store(false)
		time.Sleep(3 * poll)
		wantSeats(t, 60, late)
	})
}

// The metrics tell at each scrape how old is what a node runs, also while it can't reach the store.
func TestMetrics(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		r := prometheus.NewRegistry()
		f := newFleet(t, s, 2, func(i int, c *settings.Config) {
			if i == 0 {
				c.Stages, c.Metrics = settings.InStages(bake, 100), r
			}
		})
		want := func(age float64, version, staged, faulty int) {
			t.Helper()
			text := ""
			for name, v := range map[string]string{"age_seconds": fmt.Sprint(age), "version": fmt.Sprint(version), "staged": fmt.Sprint(staged), "faulty": fmt.Sprint(faulty)} {
				help := map[string]string{"age_seconds": "Time since the store last confirmed what this process runs.", "version": "The version that this process runs; 0: the defaults.",
					"staged": "1 while this process runs a version that is being rolled out, else 0.", "faulty": "1 while this process can't run the version in force, else 0."}[name]
				if name != "age_seconds" {
					text += fmt.Sprintf("# HELP millrace_settings_%[1]s %[2]s\n# TYPE millrace_settings_%[1]s gauge\nmillrace_settings_%[1]s{settings=\"shop\"} %[3]s\n", name, help, v)
				}
			}
			if err := testutil.GatherAndCompare(r, strings.NewReader(text), "millrace_settings_version", "millrace_settings_staged", "millrace_settings_faulty"); err != nil {
				t.Error(err)
			}
			all, err := r.Gather()
			must(t, err)
			if got := all[0].GetMetric()[0].GetGauge().GetValue(); got < age || got > age+2*poll.Seconds() {
				t.Errorf("got age %v, want %v or up to a poll more", got, age)
			}
		}
		want(0, 0, 0, 0)
		f.roll(0, 60)
		want(0, 1, 1, 0)
		f.links[0].Cut()
		time.Sleep(time.Hour)
		want(time.Hour.Seconds()-poll.Seconds(), 1, 1, 0)
		f.links[0].Restore()
		time.Sleep(poll)
		want(0, 0, 0, 0) // it was taken for dead
		must(t, f.nodes[0].Close(t.Context()))
		if all, err := r.Gather(); err != nil || len(all) != 0 {
			t.Errorf("got %v, %v after the end", all, err)
		}
	})
}
