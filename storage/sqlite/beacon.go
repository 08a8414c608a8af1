package sqlite

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A beacon signals to other processes that something was sent, and receives their signs. Each open store has a file
// of its own in a folder beside the database. A sign is a write to that file. To receive signs, a store watches the
// folder for the files of the others. So a store doesn't take its own sign for another's, and no sign is overwritten.
//
// A process that can't use the folder gives no sign, but its commits go through the log. So a store that knows of no
// other process watches the log as well, while nothing is written to it. When something is, the store asks SQLite
// whether another process wrote it, and watches again a second later.
//
// All of this is a hint. Where it fails, consumers find their messages at the next poll.
type beacon struct {
	dir   *folder
	own   string
	log   string
	wakes *wakes
	look  func() (others bool) // releases the claims of dead processes; tells whether others are there
	news  func() bool          // whether others have written since the last call; it waits for the process that is writing

	sign  chan struct{} // of capacity 1: a sign is to be given
	ended chan struct{} // closed to end
	all   sync.WaitGroup

	mu       sync.Mutex
	watching bool
	closed   bool
}

const (
	// signPause bounds the signs to a thousand a second, however much is sent. The last is never lost: the channel sign
	// holds it meanwhile.
	signPause = time.Millisecond

	// signStale is the age at which a file counts as left over from a crash. If it isn't, its owner's next sign makes it
	// again.
	signStale = 24 * time.Hour

	// lookoutEvery is how often hear looks by itself.
	lookoutEvery = 5 * time.Second

	// lookoutSoon is how long after a write to the log it looks.
	lookoutSoon = time.Second
)

func newBeacon(dir *folder, log string, w *wakes, look, news func() bool) *beacon {
	b := &beacon{
		dir:   dir,
		own:   rand.Text(),
		log:   log,
		wakes: w,
		look:  look,
		news:  news,
		sign:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	b.all.Go(b.tell)
	return b
}

// touch has a sign given soon. It doesn't wait.
func (b *beacon) touch() {
	select {
	case b.sign <- struct{}{}:
	default:
	}
}

func (b *beacon) tell() {
	pause := signPause
	for {
		select {
		case <-b.ended:
			return
		case <-b.sign:
		}
		if b.write() {
			pause = signPause
		} else {
			pause = min(max(2*pause, time.Second), time.Minute)
			b.touch()
		}
		select {
		case <-b.ended:
			return
		case <-time.After(pause):
		}
	}
}

// write gives the sign: it changes the file's time. It opens the file by name each time, so that the file is there
// even after another store tidied up. done means that another try is of no use: the sign is given, or this process
// may not give any. Any other failure may pass, as a shortage of descriptors does.
func (b *beacon) write() (done bool) {
	f, err := b.dir.create(b.own, os.O_WRONLY)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	f.Write([]byte{'\n'})
	f.Close()
	return true
}

// watch begins to receive the signs of others, at the first call. So a store that only sends needs no watch of the
// operating system, which are few.
func (b *beacon) watch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watching || b.closed {
		return
	}
	b.watching = true
	w, err := b.watcher()
	if err != nil {
		b.dir.tell(err)
		w = &fsnotify.Watcher{} // it never has an event
	}
	b.all.Go(func() {
		b.hear(w, func(path string, on bool) bool {
			switch {
			case err != nil:
				return false
			case on:
				return w.Add(path) == nil
			default:
				return w.Remove(path) == nil
			}
		})
		if err == nil {
			w.Close()
		}
	})
}

func (b *beacon) watcher() (*fsnotify.Watcher, error) {
	root, err := b.dir.open(true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tidy(root)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := w.Add(b.dir.path); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// hear rings for the signs of others. It also rings every lookoutEvery where signs may not be enough:
//
//   - while it doesn't see its own signs, because then it sees no other store's
//   - while there are others, and once after one may have gone: they give no sign when they die, nor when a
//     visibility ends
//   - when others have written without a sign.
//
// watch begins or ends to watch the folder, which may have been removed, or the log. It reports whether it has.
func (b *beacon) hear(w *fsnotify.Watcher, watch func(path string, on bool) bool) {
	deaf, gone := true, false // own signs don't arrive; a process may have left since the last look
	b.touch()
	look := time.NewTicker(lookoutEvery)
	defer look.Stop()
	for {
		select {
		case <-b.ended:
			return
		case <-look.C:
			if deaf {
				watch(b.dir.path, true)
				b.touch()
			}
			others := b.look()
			watched := !deaf && !others && watch(b.log, true)
			if news := b.news(); news || deaf || others || gone {
				b.wakes.all()
			}
			gone = others
			if watched {
				look.Stop()
			} else {
				look.Reset(lookoutEvery)
			}
		case e, ok := <-w.Events:
			switch name := filepath.Base(e.Name); {
			case !ok:
				return
			case e.Name == b.log:
				// No event follows for the next writes. The timer looks for them instead, because there may be many, above all of
				// this store's own.
				if watch(b.log, false) {
					look.Reset(lookoutSoon)
				}
				if b.news() {
					b.wakes.all()
				}
			case (name == b.own || e.Name == b.dir.path) && e.Has(fsnotify.Remove|fsnotify.Rename):
				// The own file goes before the folder does. While a file in the folder is open, the folder's own removal is not
				// reported.
				deaf = true
				look.Reset(lookoutEvery)
			case strings.HasPrefix(name, lifeMark): // a store has come or gone, perhaps this one
				gone = gone || !e.Has(fsnotify.Create)
				look.Reset(lookoutEvery)
			case !e.Has(fsnotify.Create | fsnotify.Write):
			case name == b.own:
				if deaf {
					deaf = false
					look.Reset(lifeLook) // for processes that came before signs arrived
				}
			default:
				b.wakes.all()
			}
		case _, ok := <-w.Errors: // events were lost
			if !ok {
				return
			}
			b.wakes.all()
			look.Reset(lookoutEvery)
		}
	}
}

// tidy removes the files that crashed processes have left.
func tidy(root *os.Root) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > signStale && !strings.HasPrefix(e.Name(), lifeMark) {
			root.Remove(e.Name())
		}
	}
}

// close ends the beacon. The folder stays, because another process may be watching it.
func (b *beacon) close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	close(b.ended)
	b.all.Wait()
	select {
	case <-b.sign:
		b.write() // for messages sent just before the end
	default:
	}
	os.Remove(filepath.Join(b.dir.path, b.own))
}
