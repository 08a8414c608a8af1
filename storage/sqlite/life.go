package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

const (
	// lifeMark begins the names of the locked files, beside those of the beacon.
	lifeMark = "life-"

	// lifeLook is how often, at most, a store looks for dead processes.
	lifeLook = time.Second

	// lifeTrust is how often a message may have been delivered and still be released. A message that was delivered more
	// often may be what kills, and restarts are quick.
	lifeTrust = 3

	// The generation of a claim shows whose it is: lifeGen, above all other generations, plus the number and random bits
	// below.
	lifeNumbers = 1 << 21
	lifeRandom  = 1 << 41
	lifeGen     = lifeNumbers * lifeRandom
)

// A life shows other processes that this store is there, by a file that is locked until the process ends. It also
// finds the files of processes that have died.
type life struct {
	dir *folder // nil: it shows nothing and finds no process

	first sync.Once // of show
	file  *os.File  // locked; nil until show. Later it belongs to the writer's goroutine

	number atomic.Int64 // from 1; 0 without a file
	lacks  atomic.Bool  // the file was removed, and none could be made again

	mu     sync.Mutex // held during a look, so that a second caller waits for its outcome
	looked time.Time
	others atomic.Bool // the last look found living processes
}

func newLife(dir *folder) *life {
	l := &life{}
	if canLock {
		l.dir = dir
	}
	return l
}

// announceLife shows the store's file, at the first call. A store calls it before others learn what it has sent, and
// before it has claims. Any goroutine may call it.
func (l *life) announceLife() { l.first.Do(l.show) }

// shown reports that the file, if there was one, is still where others look for it.
func (l *life) shown() bool {
	n := l.number.Load()
	if n == 0 {
		return !l.lacks.Load()
	}
	_, err := os.Lstat(filepath.Join(l.dir.path, lifeMark+strconv.FormatInt(n, 36)))
	return !errors.Is(err, fs.ErrNotExist)
}

// again makes another file. Claims under the first file's number stay until their visibility ends.
func (l *life) again() {
	l.close()
	l.file = nil
	l.number.Store(0)
	l.show()
	l.lacks.Store(l.number.Load() == 0)
}

// gen returns a generation for a claim.
func (l *life) gen() int64 {
	l.announceLife()
	if l.number.Load() == 0 {
		return newGen()
	}
	return lifeGen + l.number.Load()*lifeRandom + rand.Int64N(lifeRandom/2) // an extension adds to it
}

// newGen returns a generation that belongs to no store that is open. It is never 0.
func newGen() int64 { return 1<<61 + rand.Int64N(1<<61) }

// next returns the generation that follows when this store extends a claim.
func (l *life) next(gen int64) int64 {
	if n := l.number.Load(); n != 0 && gen >= lifeGen && (gen-lifeGen)/lifeRandom == n {
		return gen + 1 // it still shows whose the claim is
	}
	return l.gen()
}

// show makes and locks a file. A store that looks between the two takes the file for a dead process's and removes it.
// So show looks at it once more, which also tells whether locks work in this folder.
func (l *life) show() {
	if l.dir == nil {
		return
	}
	for range 3 {
		number := 1 + rand.Int64N(lifeNumbers-1)
		f, err := l.dir.create(lifeMark+strconv.FormatInt(number, 36), os.O_RDWR|os.O_EXCL)
		if err != nil {
			continue
		}
		name := f.Name()
		if lock(f) && leadsTo(name, f) && lockedByName(name) {
			l.file = f
			l.number.Store(number)
			return
		}
		os.Remove(name)
		f.Close()
	}
}

func leadsTo(name string, f *os.File) bool {
	there, err := os.Stat(name)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(there, here)
}

func lockedByName(name string) bool {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return !lock(f)
}

// close removes the file before its lock goes: the claims of a closed store stay until their visibility ends.
func (l *life) close() {
	l.first.Do(func() {}) // from now on no file is made
	if l.file != nil {
		os.Remove(l.file.Name())
		l.file.Close()
	}
}

// A deadProcess is the file of a process that died, locked so that no other store releases its claims.
type deadProcess struct {
	number int64
	file   *os.File
}

// dead finds the processes that died since the last look. It looks once in lifeLook; in between it costs nothing.
func (l *life) dead() (found []deadProcess) {
	if l.dir == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.looked) < lifeLook {
		return nil
	}
	l.looked = time.Now()
	others := false
	entries, _ := os.ReadDir(l.dir.path) // the folder is missing until some store shows itself
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), lifeMark)
		number, err := strconv.ParseInt(digits, 36, 64)
		if !ok || err != nil || number < 1 || number >= lifeNumbers || number == l.number.Load() || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(l.dir.path, e.Name())
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lock(f) && leadsTo(name, f) {
			found = append(found, deadProcess{number, f})
		} else {
			others = true
			f.Close()
		}
	}
	l.others.Store(others)
	return found
}

// close unlocks the file. It removes the file when the claims are released.
func (d deadProcess) close(done bool) {
	if done {
		os.Remove(d.file.Name())
	}
	d.file.Close()
}

// releaseClaimsOfDead makes the claims of dead processes receivable. It may fail without harm: then their
// visibilities end.
func (s *store) releaseClaimsOfDead(ctx context.Context) {
	for _, g := range s.life.dead() {
		err := s.write(&engine.Op{Ctx: ctx, Relaxed: true}, func(w *tx) error { return w.release(g.number) })
		g.close(err == nil)
		if err != nil {
			s.life.others.Store(true) // so that a later look tries again
		}
	}
}

// checkPeers releases the claims of dead processes. It reports whether other processes are there, as far as it can
// know. It also shows this store again when its file was removed.
func (s *store) checkPeers() bool {
	if !s.life.shown() {
		// A failure makes others wait longer for its claims at worst.
		_ = s.write(&engine.Op{Ctx: context.Background(), Relaxed: true}, func(w *tx) error { w.s.life.again(); return nil })
	}
	s.releaseClaimsOfDead(context.Background())
	return s.life.dir == nil || s.life.others.Load()
}

// release ends the visibilities of a number's claims.
func (w *tx) release(number int64) error {
	var queues []named
	s := w.c.Stmt("SELECT id, name FROM names WHERE kind = ?1").Int(1, kindQueue)
	for {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			break
		}
		queues = append(queues, named{nameKey{kindQueue, s.ColText(1)}, s.ColInt(0)})
	}
	first := lifeGen + number*lifeRandom
	for _, q := range queues {
		err := w.c.Stmt(`UPDATE due SET visible = ?2 WHERE queue = ?1 AND visible > ?2 AND held AND gen BETWEEN ?3 AND ?4 AND deliveries <= ?5`).
			Int(1, q.id).Int(2, w.at).Int(3, first).Int(4, first+lifeRandom-1).Int(5, lifeTrust).Run()
		if err != nil {
			return err
		}
		if w.c.Changes() > 0 {
			w.announce(q.name, w.now, true)
		}
	}
	return nil
}
