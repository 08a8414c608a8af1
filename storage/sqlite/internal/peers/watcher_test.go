package peers

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watched is a world whose watcher gets its events from the test.
type watched struct {
	*world
	events chan fsnotify.Event
	errors chan error
}

func watchVirtually(t *testing.T, db string) watched {
	x := watched{newWorld(t, db), make(chan fsnotify.Event), make(chan error)}
	x.Announce()
	w := &watcher{peers: x.Peers, events: x.events, errors: x.errors, rewatch: func() {}, stop: func() {}}
	x.all.Go(w.run)
	synctest.Wait()
	return x
}

func (x watched) event(name string, op fsnotify.Op) {
	x.events <- fsnotify.Event{Name: filepath.Join(x.folder.path, name), Op: op}
	synctest.Wait()
}

// expect lets time pass. It demands how often the watcher asks for changes, as a check does where there are no other
// processes, and how often it rings.
func (x watched) expect(t *testing.T, when string, within time.Duration, asked, rang int) {
	t.Helper()
	time.Sleep(within)
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asked != asked || x.rang != rang {
		t.Errorf("%s: asked for changes %d times, rang %d times in %v; want %d, %d", when, x.asked, x.rang, within, asked, rang)
	}
	x.asked, x.rang = 0, 0
}

// A watcher checks every five seconds until it sees its own signal, and while there may be others. Otherwise it checks
// every thirty seconds, for changes by processes that it doesn't see.
func TestCheckIntervals(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		x := watchVirtually(t, db)
		own := x.signals.file
		x.expect(t, "own signals don't arrive", 2*checkEvery, 2, 2)
		x.event(own, fsnotify.Write)
		x.expect(t, "they arrive", lookEvery, 1, 0)
		x.expect(t, "it is alone", time.Hour, 120, 0)
		x.event(presencePrefix+"own", fsnotify.Create)
		x.expect(t, "its own presence file was made", checkEvery, 1, 0)
		x.set(func() { x.changed = true })
		x.expect(t, "another process has written without a signal", checkAloneEvery, 1, 1)

		other := newWorld(t, db)
		other.Announce()
		x.event(presencePrefix+"other", fsnotify.Create)
		x.expect(t, "another has come", 3*checkEvery, 0, 3)
		other.Close()
		x.expect(t, "it has gone, and may have left claims behind", checkEvery, 1, 1)
		x.expect(t, "it is alone again", checkAloneEvery, 1, 0)
		x.event(presencePrefix+"another", fsnotify.Create)
		x.event(presencePrefix+"another", fsnotify.Remove)
		x.expect(t, "another has come and gone", checkEvery, 1, 1)

		x.errors <- fsnotify.ErrEventOverflow
		x.expect(t, "events were lost", checkEvery, 1, 2)
		x.event("signal of another", fsnotify.Write)
		x.expect(t, "another has sent", lookEvery, 0, 1)
	})
}

// A watcher whose folder or signal file is removed doesn't rely on signals until it sees its own again.
func TestRemovedSignals(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		x := watchVirtually(t, db)
		own := x.signals.file
		x.event(own, fsnotify.Create)
		x.expect(t, "own signals arrive", lookEvery, 1, 0)
		for _, name := range []string{".", own} {
			x.event(name, fsnotify.Remove)
			x.expect(t, name+" is removed", 3*checkEvery, 3, 3)
			x.event(own, fsnotify.Create)
			x.expect(t, name+" is back", lookEvery, 1, 0)
			x.expect(t, name+" is back for long", checkAloneEvery, 1, 0)
		}
	})
}

// Processes that come and go without end don't put the checks off.
func TestChecksAmongEvents(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		x := watchVirtually(t, db)
		x.event(x.signals.file, fsnotify.Create)
		x.expect(t, "own signals arrive", lookEvery, 1, 0)
		for range 10 {
			x.event(presencePrefix+"another", fsnotify.Create)
			time.Sleep(2 * time.Second)
		}
		x.expect(t, "others come for 20 seconds", 0, 3, 0)
	})
}

// A check releases the claims of a dead process, whatever receivers do.
func TestCheckReleasesClaimsOfDead(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		x := watchVirtually(t, db)
		other := newWorld(t, db)
		other.Announce()
		x.event(x.signals.file, fsnotify.Create)
		x.expect(t, "another is there", lookEvery, 0, 1)
		other.die()
		x.ReleaseClaimsOfDead(t.Context()) // too soon after the check's look
		if len(x.releases()) != 0 {
			t.Fatal("a receiver looked twice within a second")
		}
		time.Sleep(checkEvery)
		synctest.Wait()
		if got := x.releases(); len(got) != 1 {
			t.Errorf("released %v; want the dead one's claims", got)
		}
	})
}
