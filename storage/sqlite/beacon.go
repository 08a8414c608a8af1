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

// A beacon tells other processes that there is something, and hears them. Each open store has a file of
// its own in a folder beside the database. To tell, it writes to that file; to hear, it watches the folder
// for the files of the others. So nobody hears itself, and no sign of anybody is overwritten.
//
// Who can't use the folder gives no sign, but what it commits goes through the log. So while nothing is written to the log, a store that is
// alone as far as it knows watches that, too. Once something is, it asks SQLite whether that was somebody else, and a second later watches again.
//
// All of it is a hint: where it fails, consumers find what there is at their next poll.
type beacon struct {
	dir   *folder
	own   string
	log   string
	wakes *wakes
	look  func() (others bool) // for those who have died, and whether there are others
	news  func() bool          // whether others have written since the last call; it waits for who is writing

	sign  chan struct{} // of capacity 1: there is something to tell
	ended chan struct{} // closed to end
	all   sync.WaitGroup

	mu       sync.Mutex
	watching bool
	closed   bool
}

const (
	// signPause bounds the signs to a thousand a second, however much is sent. The last is never lost:
	// sign holds it meanwhile.
	signPause = time.Millisecond

	// signStale is the age at which a file must be left over from a crash. If it isn't, its owner's next
	// sign makes it again.
	signStale = 24 * time.Hour

	// lookoutEvery is how often hear looks by itself.
	lookoutEvery = 5 * time.Second

	// lookoutSoon is when it looks after something was written to the log.
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

// touch tells the others, soon. It doesn't wait.
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

// write changes the file's time. It opens it by name each time, so that it is there whoever tidied up. It reports whether another try is
// of no use: the sign is given, or this process may not give any. Descriptors may be short for a while.
func (b *beacon) write() (done bool) {
	f, err := b.dir.create(b.own, os.O_WRONLY)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	f.Write([]byte{'\n'})
	f.Close()
	return true
}

// watch begins to hear the others, at the first call. Without it a store that only sends needs no watch of
// the operating system, which are few.
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
		w = &fsnotify.Watcher{} // that never has anything
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

// hear rings for the signs of others, and every now and then where that may not be enough: while it doesn't hear its own signs, for
// then it hears nobody's; and while there are others, and once after one may have gone: they give no sign when they die, nor when
// a visibility ends. watch begins or ends to watch the folder, which somebody may have removed, or the log,
// and reports whether it has.
func (b *beacon) hear(w *fsnotify.Watcher, watch func(path string, on bool) bool) {
	deaf, gone := true, false // gone: somebody may have, since the last look
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
				// Of what is written next nothing is heard, but it is looked for: there may be much, of this store's own above all.
				if watch(b.log, false) {
					look.Reset(lookoutSoon)
				}
				if b.news() {
					b.wakes.all()
				}
			case (name == b.own || e.Name == b.dir.path) && e.Has(fsnotify.Remove|fsnotify.Rename):
				// The own file goes before the folder does, of which an open file in it keeps the news back.
				deaf = true
				look.Reset(lookoutEvery)
			case strings.HasPrefix(name, lifeMark): // somebody has come or gone, or this store itself
				gone = gone || !e.Has(fsnotify.Create)
				look.Reset(lookoutEvery)
			case !e.Has(fsnotify.Create | fsnotify.Write):
			case name == b.own:
				if deaf {
					deaf = false
					look.Reset(lifeLook) // for those who came before it could hear
				}
			default:
				b.wakes.all()
			}
		case _, ok := <-w.Errors: // signs were lost
			if !ok {
				return
			}
			b.wakes.all()
			look.Reset(lookoutEvery)
		}
	}
}

// tidy removes what crashed processes have left.
func tidy(root *os.Root) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > signStale && !strings.HasPrefix(e.Name(), lifeMark) {
			root.Remove(e.Name())
		}
	}
}

// close ends it. The folder stays: another process may be watching it.
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
		b.write() // for what was sent just before the end
	default:
	}
	os.Remove(filepath.Join(b.dir.path, b.own))
}
