package peers

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// checkEvery is how often a watcher checks while other processes are there, or signals may be missing.
	checkEvery = 5 * time.Second

	// checkAloneEvery is how often it checks otherwise. A check that finds nothing costs half a millisecond of CPU.
	checkAloneEvery = 30 * time.Second
)

// A watcher rings for the signals of other stores, and checks by itself where signals are not enough; see the package
// comment.
type watcher struct {
	peers   *Peers
	events  <-chan fsnotify.Event
	errors  <-chan error
	rewatch func() // watches the folder that is there now, which may be another one than at first
	stop    func()

	timer *time.Timer
	due   time.Time // when timer fires

	ownSignalsMissing bool // the store's own signals don't arrive, so others' don't either
	peerMayHaveLeft   bool // since the last check
}

// newWatcher watches the folder. Where that fails the watcher goes by its checks alone.
func newWatcher(p *Peers) *watcher {
	w := &watcher{peers: p, rewatch: func() {}, stop: func() {}}
	err := w.watchFolder()
	if err != nil {
		p.folder.warn(err)
	}
	return w
}

func (w *watcher) watchFolder() error {
	dir := w.peers.folder
	root, err := dir.open(true)
	if err != nil {
		return err
	}
	defer root.Close()
	removeStaleSignals(root)
	f, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := f.Add(dir.path); err != nil {
		f.Close()
		return err
	}
	w.events, w.errors = f.Events, f.Errors
	w.rewatch = func() { _ = f.Add(dir.path) } // the next check tries again
	w.stop = func() { f.Close() }
	return nil
}

// run watches until the Peers are closed.
func (w *watcher) run() {
	defer w.stop()
	w.ownSignalsMissing = true
	w.timer, w.due = time.NewTimer(checkEvery), time.Now().Add(checkEvery)
	defer w.timer.Stop()
	w.peers.signals.request()
	for {
		select {
		case <-w.peers.ended:
			return
		case <-w.timer.C:
			w.check()
		case e, ok := <-w.events:
			if !ok {
				return
			}
			w.handle(e)
		case _, ok := <-w.errors: // events were lost
			if !ok {
				return
			}
			w.peers.cfg.RingAll()
			w.peerMayHaveLeft = true
			w.checkWithin(checkEvery)
		}
	}
}

// check looks for what no signal announces, and sets the time of the next check. It goes by what is there, because the
// events of a folder that was removed may tell something else: a write to a file that is gone looks like a signal.
func (w *watcher) check() {
	w.rewatch()
	if w.ownSignalsMissing = w.ownSignalsMissing || w.peers.folder.lost(w.peers.signals.file, nil); w.ownSignalsMissing {
		w.peers.signals.request()
	}
	w.peers.CheckSocket()
	others := w.peers.Check(context.Background())
	changed := !others && w.peers.cfg.HasChanged()
	if others || changed || w.ownSignalsMissing || w.peerMayHaveLeft {
		w.peers.cfg.RingAll()
	}
	w.peerMayHaveLeft = others
	next := checkAloneEvery
	if others || w.ownSignalsMissing {
		next = checkEvery
	}
	w.timer.Reset(next)
	w.due = time.Now().Add(next)
}

// checkWithin has the next check come within d.
func (w *watcher) checkWithin(d time.Duration) {
	if at := time.Now().Add(d); at.Before(w.due) {
		w.timer.Reset(d)
		w.due = at
	}
}

// handle takes an event of the folder.
func (w *watcher) handle(e fsnotify.Event) {
	name := filepath.Base(e.Name)
	own := name == w.peers.signals.file
	switch {
	case (own || e.Name == w.peers.folder.path) && e.Has(fsnotify.Remove|fsnotify.Rename):
		// The own file goes before the folder does. While a file in the folder is open, the folder's own removal is not
		// reported.
		w.ownSignalsMissing = true
		w.checkWithin(checkEvery)
	case strings.HasPrefix(name, socketPrefix), strings.HasPrefix(name, newPrefix):
		if e.Has(fsnotify.Remove | fsnotify.Rename) {
			w.peers.CheckSocket()
		}
	case strings.HasPrefix(name, presencePrefix): // a store has come or gone, perhaps this one
		w.peerMayHaveLeft = w.peerMayHaveLeft || !e.Has(fsnotify.Create)
		w.checkWithin(checkEvery)
	case !e.Has(fsnotify.Create | fsnotify.Write):
	case own:
		if w.ownSignalsMissing {
			w.ownSignalsMissing = false
			w.checkWithin(lookEvery) // for processes that came before signals arrived
		}
	default:
		w.peers.cfg.RingAll()
	}
}
