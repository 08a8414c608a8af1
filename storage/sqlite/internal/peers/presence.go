package peers

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/flock"
)

const (
	// presencePrefix begins the names of presence files. Signal files don't have it.
	presencePrefix = "process-"

	// lookEvery is how often, at most, a receiving store looks for dead processes.
	lookEvery = time.Second
)

// A presence shows other processes that this store is there, by a file that is locked until the process ends. It also
// finds the files of processes that have died.
type presence struct {
	folder *folder // nil: it shows nothing and finds no process

	first  sync.Once // of announce
	number atomic.Int64

	mu      sync.Mutex
	file    *os.File // locked; nil until announce
	name    string   // of the file in the folder
	info    fs.FileInfo
	missing bool // the file was removed, and none could be made again
	closed  bool

	look   sync.Mutex // held during a look, so that a second caller waits for its outcome
	looked time.Time
	others atomic.Bool // the last look found living processes
}

// announce makes the presence file, at the first call.
func (p *presence) announce() {
	p.first.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.create()
		}
	})
}

// restore makes another file if the first was removed. Claims under the first file's number stay until their
// visibility ends.
func (p *presence) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.file == nil && !p.missing || p.file != nil && !p.folder.lost(p.name, p.info) {
		return
	}
	p.number.Store(0) // the number is free for others
	if p.file != nil {
		p.file.Close()
		p.file = nil
	}
	p.create()
	p.missing = p.file == nil
}

// create makes and locks a file. A store that looks between the two takes the file for a dead process's and removes
// it. So create looks at it once more, which also tells whether locks work in this folder. p.mu is held.
func (p *presence) create() {
	if p.folder == nil {
		return
	}
	for range 3 {
		number := 1 + rand.Int64N(numbers-1)
		name := presencePrefix + strconv.FormatInt(number, 36)
		f, err := p.folder.create(name, os.O_RDWR|os.O_EXCL)
		if err != nil {
			continue
		}
		if flock.Lock(f) && p.folder.isLocked(name, f) {
			if info, err := f.Stat(); err == nil {
				p.file, p.name, p.info = f, name, info
				p.number.Store(number)
				return
			}
		}
		p.folder.remove(name)
		f.Close()
	}
}

// isAt reports whether a name leads to an open file.
func isAt(root *os.Root, name string, f *os.File) bool {
	there, err := root.Lstat(name)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(there, here)
}

// isLocked reports whether a name leads to an open file, which is locked for others.
func (d *folder) isLocked(name string, f *os.File) (locked bool) {
	d.in(func(root *os.Root) error {
		other, err := root.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		locked = isAt(root, name, f) && !flock.Lock(other)
		return other.Close()
	})
	return locked
}

// close removes the file before its lock goes: the claims of a closed store stay until their visibility ends.
func (p *presence) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.file != nil {
		p.folder.remove(p.name)
		p.file.Close()
		p.file = nil
	}
}

// A deadProcess is the presence file of a process that died, locked so that no other store releases its claims.
type deadProcess struct {
	number int64
	file   *os.File
	name   string
	folder *folder
}

// close unlocks the file. It removes the file when the claims are released.
func (d deadProcess) close(released bool) {
	if released {
		d.folder.remove(d.name)
	}
	d.file.Close()
}

// findDeadSometimes is findDead, but looks once in lookEvery only.
func (p *presence) findDeadSometimes() []deadProcess {
	if p.folder == nil {
		return nil
	}
	p.look.Lock()
	defer p.look.Unlock()
	if time.Since(p.looked) < lookEvery {
		return nil
	}
	return p.lookForDead()
}

// findDead finds the processes that died and whose claims were not released yet.
func (p *presence) findDead() []deadProcess {
	if p.folder == nil {
		return nil
	}
	p.look.Lock()
	defer p.look.Unlock()
	return p.lookForDead()
}

// lookForDead is findDead with p.look held.
func (p *presence) lookForDead() (found []deadProcess) {
	p.looked = time.Now()
	others := false
	p.folder.in(func(root *os.Root) error { // the folder is missing until some store announces itself
		entries, err := fs.ReadDir(root.FS(), ".")
		for _, e := range entries {
			number, ok := presenceNumber(e)
			if !ok || number == p.number.Load() {
				continue
			}
			name := e.Name()
			f, err := root.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				continue
			}
			if flock.Lock(f) && isAt(root, name, f) { // in this order: whoever removes a file has locked it
				found = append(found, deadProcess{number, f, name, p.folder})
			} else {
				others = true
				f.Close()
			}
		}
		return err
	})
	p.others.Store(others)
	return found
}

// presenceNumber returns the number in a presence file's name. ok is false for any other file.
func presenceNumber(e fs.DirEntry) (number int64, ok bool) {
	digits, ok := strings.CutPrefix(e.Name(), presencePrefix)
	if !ok || !e.Type().IsRegular() {
		return 0, false
	}
	number, err := strconv.ParseInt(digits, 36, 64)
	return number, err == nil && number > 0 && number < numbers
}
