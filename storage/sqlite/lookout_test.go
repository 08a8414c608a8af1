package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage"
)

// A store looks for others every five seconds until it sees its own sign, and while there may be others. Otherwise it
// doesn't look.
func TestLookout(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		var others, news, refused, watched atomic.Bool
		others.Store(true)
		log := db + "-wal"
		b := newBeacon(newFolder(db), log, newWakes(),
			func() bool { looks.Add(1); return others.Load() },
			func() bool { return news.Swap(false) })
		ring, stop := b.wakes.add("queue")
		defer stop()
		<-ring // at the beginning
		events, errs := make(chan fsnotify.Event), make(chan error)
		b.all.Go(func() {
			b.hear(&fsnotify.Watcher{Events: events, Errors: errs}, func(path string, on bool) bool {
				if path != log {
					return true
				}
				was := watched.Swap(on && !refused.Load())
				return !refused.Load() && (on || was)
			})
		})
		defer b.close()
		event := func(name string) {
			events <- fsnotify.Event{Name: filepath.Join(b.dir.path, name), Op: fsnotify.Create}
			synctest.Wait()
		}
		write := func() { events <- fsnotify.Event{Name: log, Op: fsnotify.Write} }
		expect := func(when string, within time.Duration, wantLooks int64, wantRing bool) {
			t.Helper()
			looks.Store(0)
			time.Sleep(within)
			synctest.Wait()
			rung := false
			select {
			case <-ring:
				rung = true
			default:
			}
			if looks.Load() != wantLooks || rung != wantRing {
				t.Errorf("%s: looked %d times, rung %v; want %d, %v", when, looks.Load(), rung, wantLooks, wantRing)
			}
		}
		expect("it is deaf", lookoutEvery, 1, true)
		others.Store(false)
		expect("it is deaf and alone", lookoutEvery, 1, true)
		event(b.own)
		expect("it hears and is alone", lifeLook, 1, false)
		expect("it has nothing to look for", time.Hour, 0, false)
		event(lifeMark + "own")
		expect("it has come itself", time.Hour, 1, false)
		others.Store(true)
		event(lifeMark + "abc")
		expect("another has come", 3*lookoutEvery, 3, true)
		others.Store(false)
		expect("that has gone", time.Hour, 1, true) // it may have left claims behind
		event(lifeMark + "def")
		events <- fsnotify.Event{Name: filepath.Join(b.dir.path, lifeMark+"def"), Op: fsnotify.Remove}
		expect("another has come and gone", time.Hour, 1, true)
		errs <- fsnotify.ErrEventOverflow
		expect("signs were lost", time.Hour, 1, true)
		events <- fsnotify.Event{Name: b.dir.path, Op: fsnotify.Remove}
		expect("the folder is gone", 3*lookoutEvery, 3, true)
		event(b.own)
		expect("the folder is back", time.Hour, 1, false)
		events <- fsnotify.Event{Name: filepath.Join(b.dir.path, b.own), Op: fsnotify.Remove}
		expect("its own file is gone", 3*lookoutEvery, 3, true)
		event(b.own)
		expect("it is back", time.Hour, 1, false)
		event("another's sign")
		expect("another has sent", time.Hour, 0, true)

		news.Store(true)
		write()
		expect("somebody has written without a sign", lookoutSoon-1, 0, true)
		news.Store(true)
		expect("and once more before the log is watched again", 1, 1, true)
		write()
		expect("this store itself has written", time.Hour, 1, false)
		write()
		expect("so it has, and the log isn't watched", lookoutSoon-1, 0, false)
		write()
		expect("an event that was under way", time.Hour, 1, false)
		others.Store(true)
		event(lifeMark + "ghi")
		write()
		refused.Store(true)
		expect("another is there", 3*lookoutEvery, 3, true)
		others.Store(false)
		expect("that has gone and the log can't be watched", time.Hour, int64(time.Hour/lookoutEvery), true)
		expect("it can't be watched", time.Hour, int64(time.Hour/lookoutEvery), false)
		news.Store(true)
		expect("it can't, and somebody has written", lookoutEvery, 1, true)
	})
}

// A message that is sent without a sign is found by the log: while nothing else happens, and while this store writes
// without end.
func TestFoundWithoutASign(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	ring, stop := wake(s, "queue")
	defer stop()
	<-ring // at the beginning
	silent := openAt(t, s.path, "?wake=off")
	send := func(while string) {
		t.Helper()
		if err := silent.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ring:
		case <-time.After(time.Minute):
			t.Fatal("nothing was rung while ", while)
		}
	}
	for range 3 {
		send("nothing else happens")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Blobs("other").Put(ctx, "key", []byte("x"), storage.Condition{}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	send("this store writes")
	send("this store goes on")
}

// A store that listens shows itself before it claims anything.
func TestWhoListensShowsItself(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	if n := len(lives(t, s)); n != 0 {
		t.Fatalf("%d show themselves before anybody listens", n)
	}
	_, stop := wake(s, "queue")
	defer stop()
	if n := len(lives(t, s)); n != 1 {
		t.Errorf("%d show themselves; want 1", n)
	}
}

// A store that can't give a sign, for want of a descriptor, say, gives it later, because others look seldom. Here a
// file in the folder's place is in the way.
func TestASignThatFailsIsGivenLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := newFolder(filepath.Join(t.TempDir(), "db"))
		if err := os.WriteFile(dir.path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBeacon(dir, "", newWakes(), func() bool { return false }, func() bool { return false })
		defer b.close()
		b.touch()
		time.Sleep(10 * time.Minute)
		if err := os.Remove(dir.path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := os.Stat(filepath.Join(dir.path, b.own)); err != nil {
			t.Error(err)
		}
	})
}

// A ring for a delayed message doesn't rest on one timer for hours.
func TestRingsInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWakes()
		defer w.close()
		ring, stop := w.add("queue")
		defer stop()
		<-ring // at the beginning
		begin := time.Now()
		w.ringAt("queue", begin.Add(time.Hour))
		<-ring
		if got := time.Since(begin); got != wakeAnyway {
			t.Errorf("rung after %v, want %v", got, wakeAnyway)
		}
		w.ringAt("queue", begin.Add(wakeAnyway+time.Second)) // a consumer's look sets it again
		<-ring
		if got, want := time.Since(begin), wakeAnyway+time.Second; got != want {
			t.Errorf("rung after %v, want %v", got, want)
		}
	})
}

// The news that another process has written isn't lost with a group that is repeated or undone.
func TestNewsOfARepeatedGroup(t *testing.T) {
	t.Parallel()
	s := openTest(t, "")
	silent := openAt(t, s.path, "?wake=off")
	if s.news() {
		t.Error("news before anybody has written")
	}
	if _, err := silent.Blobs("docs").Put(t.Context(), "key", []byte("x"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	broken := &Error{Code: sqlite3.SQLITE_FULL}
	release := hold(t, s)
	defer release()
	var news bool
	asked := enqueue(s, func() error { news = s.news(); return nil })
	failed := enqueue(s, func() error {
		return s.write(&op{ctx: t.Context(), run: func(*writer) error { return broken }})
	})
	release()
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if <-asked; !news {
		t.Error("no news, though another store has written")
	}
	if s.news() {
		t.Error("the same news twice")
	}
}
