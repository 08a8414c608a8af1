package valet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/worker"
)

// A script is a scanner that does something else at each call; the last one counts for all that follow.
type script struct {
	calls atomic.Int64
	steps []func(ctx context.Context, content io.Reader) (valet.Verdict, error)
}

func (s *script) scan(ctx context.Context, _ valet.File, content io.Reader) (valet.Verdict, error) {
	n := int(s.calls.Add(1)) - 1
	return s.steps[min(n, len(s.steps)-1)](ctx, content)
}

type step = func(context.Context, io.Reader) (valet.Verdict, error)

func passes(context.Context, io.Reader) (valet.Verdict, error) { return valet.Pass(), nil }
func panics(context.Context, io.Reader) (valet.Verdict, error) { panic("the scanner is broken") }
func fails(context.Context, io.Reader) (valet.Verdict, error) {
	return valet.Pass(), errors.New("connection refused")
}
func readsAByte(_ context.Context, content io.Reader) (valet.Verdict, error) {
	_, err := content.Read(make([]byte, 1))
	return valet.Pass(), err
}
func hangs(ctx context.Context, _ io.Reader) (valet.Verdict, error) {
	<-ctx.Done()
	return valet.Verdict{}, ctx.Err()
}

// A scanner that fails, panics or reads too little is asked again. A file whose check never comes to an end is held,
// and an operator's release scans it again.
func TestScannersThatFail(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		steps []step
		want  valet.State
		calls int64 // 0: any number
	}{
		{"reads nothing", []step{passes}, valet.StateClean, 1},
		{"reads a byte", []step{readsAByte}, valet.StateClean, 1},
		{"fails twice", []step{fails, fails, passes}, valet.StateClean, 3},
		{"panics twice", []step{panics, panics, passes}, valet.StateClean, 3},
		{"hangs once", []step{hangs, passes}, valet.StateClean, 2},
		{"fails always", []step{fails}, valet.StateHeld, 0},
		{"panics always", []step{panics}, valet.StateHeld, 0},
		{"says nothing", []step{func(context.Context, io.Reader) (valet.Verdict, error) { return valet.Verdict{}, nil }}, valet.StateHeld, 1},
		{"says much", []step{func(context.Context, io.Reader) (valet.Verdict, error) {
			return valet.Refuse(strings.Repeat("ü\xff", 1<<20)), nil
		}}, valet.StateRejected, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &script{steps: test.steps}
			inTown(t, valet.Config{Scan: s.scan}, func(w *town) {
				key := w.picture()
				millracetest.Upload(w.t, w.v, key, png)
				w.app.Drain()
				f := w.wantState(key.ID, test.want)
				if n := s.calls.Load(); test.calls > 0 && n != test.calls || len(f.Reason) > 300 {
					w.t.Errorf("%d calls, and the reason has %d bytes", n, len(f.Reason))
				}
				poisoned := w.app.Poison()
				if gaveUp := test.want == valet.StateHeld && test.calls == 0; gaveUp != (len(poisoned) == 1) {
					w.t.Errorf("the poison queue has %d messages", len(poisoned))
				} else if gaveUp {
					w.want(http.StatusNotFound, http.MethodGet, w.read(key.ID, valet.Download{Owner: "cook"}).URL, nil)
					s.steps = []step{passes}
					before := s.calls.Load()
					w.must(w.v.Release(w.t.Context(), key.ID, "it is repaired"))
					w.app.Drain()
					w.wantState(key.ID, valet.StateClean)
					if n := s.calls.Load(); n != before+1 {
						w.t.Errorf("the release has scanned %d times", n-before)
					}
					w.wantTold("uploaded " + key.ID)
				}
			})
		})
	}
}

// A guard spends nothing while the scanner is away for an hour, and the files wait. They become clean when it is back.
func TestAScannerThatIsAway(t *testing.T) {
	t.Parallel()
	repeats := guard.Config{Repeatable: true, Fault: func(error) guard.Fault { return guard.Fault{Kind: guard.Transient} }}
	for name, c := range map[string]struct {
		down step
		cfg  guard.Config
	}{"refuses": {fails, repeats}, "hangs": {hangs, repeats}, "hangs, and the guard doesn't know that it may ask again": {hangs, guard.Config{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var away atomic.Bool
			s := &script{steps: []step{func(ctx context.Context, r io.Reader) (valet.Verdict, error) {
				if away.Load() {
					return c.down(ctx, r)
				}
				return valet.Pass(), nil
			}}}
			g := guard.New("scanner", c.cfg)
			queues := map[string]worker.QueueConfig{valet.CheckQueue: {Limiter: g.Limiter}}
			inTownWith(t, valet.Config{Scan: s.scan, Guard: g}, queues, func(w *town) {
				away.Store(true)
				var keys []valet.Key
				for range 5 {
					key := w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png)), TTL: 24 * time.Hour})
					millracetest.Upload(w.t, w.v, key, png)
					keys = append(keys, key)
				}
				w.app.Wait(time.Hour)
				for _, key := range keys {
					w.wantState(key.ID, valet.StateArrived)
				}
				if n := s.calls.Load(); n > 300 {
					w.t.Errorf("a scanner that is away was asked %d times", n)
				}
				away.Store(false)
				w.app.Wait(20 * time.Minute)
				w.app.Drain()
				for _, key := range keys {
					w.wantState(key.ID, valet.StateClean)
				}
				if len(w.told()) != 5 || len(w.app.Poison()) > 0 {
					w.t.Errorf("told %v", w.told())
				}
			})
		})
	}
}

// A file for which the scanner hangs each time is held, and no other file waits for that.
func TestAFileThatHangsTheScanner(t *testing.T) {
	t.Parallel()
	scan := func(ctx context.Context, f valet.File, content io.Reader) (valet.Verdict, error) {
		if f.For == "bomb" {
			return hangs(ctx, content)
		}
		return valet.Pass(), nil
	}
	g := guard.New("scanner", guard.Config{})
	inTownWith(t, valet.Config{Scan: scan, Guard: g}, map[string]worker.QueueConfig{valet.CheckQueue: {Limiter: g.Limiter}}, func(w *town) {
		bomb := w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png)), For: "bomb"})
		millracetest.Upload(w.t, w.v, bomb, png)
		for range 5 {
			key := w.picture()
			millracetest.Upload(w.t, w.v, key, png)
			w.app.Wait(10 * time.Second)
			w.wantState(key.ID, valet.StateClean)
		}
		w.app.Wait(8 * time.Hour)
		w.wantState(bomb.ID, valet.StateHeld)
		if n := len(w.app.Poison()); n != 1 {
			w.t.Errorf("the poison queue has %d messages", n)
		}
	})
}

// A grant that is revoked while its check runs is no file, whatever the check says then, and no byte of it is left.
func TestRevokedWhileTheCheckRuns(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan bool), make(chan bool)
	for _, verdict := range []valet.Verdict{valet.Pass(), valet.Refuse("bad"), valet.Unclear("locked")} {
		var once sync.Once
		scan := func(ctx context.Context, _ valet.File, content io.Reader) (valet.Verdict, error) {
			once.Do(func() { began, goOn = make(chan bool), make(chan bool) }) // of the bubble
			close(began)
			<-goOn
			_, _ = io.Copy(io.Discard, content)
			return verdict, nil
		}
		inTown(t, valet.Config{Scan: scan}, func(w *town) {
			key := w.picture()
			put := w.part(key, 1)
			millracetest.Upload(w.t, w.v, key, png)
			synctest.Wait()
			w.must(w.v.Revoke(w.t.Context(), key.ID, "left"))
			w.app.Wait(time.Second)
			w.wantState(key.ID, valet.StateRevoked)
			w.want(http.StatusCreated, http.MethodPut, put.URL, png) // a key of the store that was given before
			close(goOn)
			w.app.Drain()
			w.app.Advance(time.Hour)
			w.wantState(key.ID, valet.StateRevoked)
			w.wantTold("revoked " + key.ID)
			w.wantNoBytes(key.ID)
		})
	}
}

// A file that was deleted stays so, whatever comes late: a part, a completion, a release.
func TestLateMessagesOfADeletedFile(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.picture()
		put := w.part(key, 1)
		millracetest.Upload(w.t, w.v, key, png)
		w.app.Drain()
		w.must(w.v.Delete(w.t.Context(), key.ID, "asked for"))
		w.app.Drain()
		w.want(http.StatusCreated, http.MethodPut, put.URL, png)
		w.must(w.v.Delete(w.t.Context(), key.ID, "again"))
		w.must(w.v.Release(w.t.Context(), key.ID, "again"))
		w.must(w.v.Revoke(w.t.Context(), key.ID, "again"))
		w.app.Advance(time.Hour)
		w.wantState(key.ID, valet.StateDeleted)
		w.wantTold("uploaded " + key.ID)
		w.wantNoBytes(key.ID)
		w.app.Advance(8 * 24 * time.Hour)
		w.want(http.StatusGone, http.MethodPost, key.URL+"/complete", nil)
		w.must(w.v.Revoke(w.t.Context(), key.ID, "it is forgotten"))
		w.app.Drain()
		if _, err := w.v.File(w.t.Context(), key.ID); !errors.Is(err, driver.ErrNotFound) {
			w.t.Errorf("got %v", err)
		}
	})
}
