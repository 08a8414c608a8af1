package peers

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Stores come, go and die while others look. A store that is there is never taken for dead, and each dead one is
// found once.
func TestPresencesByChance(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	dir := newFolder(db, slog.New(slog.DiscardHandler))
	var (
		mu          sync.Mutex
		there       = map[int64]bool{} // by number; under mu
		found       = map[int64]int{}  // how often each dead store was found; under mu
		gone        = make(chan struct{})
		comers, all sync.WaitGroup
	)
	for range 3 {
		all.Go(func() {
			p := &presence{folder: dir}
			for last := false; !last; {
				select {
				case <-gone:
					last = true
				default:
				}
				for _, d := range p.findDead() {
					mu.Lock()
					if there[d.number] {
						t.Errorf("number %d is there and was taken for dead", d.number)
					}
					if n, died := found[d.number]; died { // other files were found before their stores had locked them
						found[d.number] = n + 1
					}
					mu.Unlock()
					d.close(true)
				}
			}
		})
	}
	for range 4 {
		comers.Go(func() {
			for i := range 200 {
				p := &presence{folder: dir}
				p.announce()
				number := p.number.Load()
				if number == 0 {
					continue // another store looked at that moment, three times
				}
				mu.Lock()
				there[number] = true
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				delete(there, number)
				if i%2 == 0 {
					found[number] = 0
				}
				mu.Unlock()
				if i%2 == 0 {
					p.file.Close() // as the end of its process would
				} else {
					p.close()
				}
			}
		})
	}
	comers.Wait()
	close(gone)
	all.Wait()
	if len(found) < 100 {
		t.Errorf("%d died; too few to tell", len(found))
	}
	for number, n := range found {
		if n != 1 {
			t.Errorf("number %d died once and was found %d times", number, n)
		}
	}
	if left, err := os.ReadDir(db + "-wake"); len(left) != 0 || err != nil {
		t.Errorf("files %v of the dead are left, %v", left, err)
	}
}

// A presence whose file was removed makes another one, until it is closed.
func TestPresenceIsRestored(t *testing.T) {
	t.Parallel()
	needLocks(t)
	db := newDatabase(t)
	p := &presence{folder: newFolder(db, slog.New(slog.DiscardHandler))}
	p.restore()
	if names := files(t, db, presencePrefix); len(names) != 0 {
		t.Fatalf("files %q before the store announced itself", names)
	}
	p.announce()
	first := p.number.Load()
	if p.restore(); p.number.Load() != first {
		t.Error("a file that is there was replaced")
	}
	if err := os.RemoveAll(db + "-wake"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db+"-wake", nil, 0o600); err != nil { // no folder can be made
		t.Fatal(err)
	}
	if p.restore(); p.number.Load() != 0 {
		t.Error("it claims under a number without a file")
	}
	if err := os.Remove(db + "-wake"); err != nil {
		t.Fatal(err)
	}
	if p.restore(); p.number.Load() == 0 || len(files(t, db, presencePrefix)) != 1 {
		t.Error("no file was made again")
	}
	p.close()
	if p.restore(); len(files(t, db, presencePrefix)) != 0 {
		t.Error("a closed store made a file")
	}
}

// A folder behind a link is nobody's: no presence is made, found or removed there.
func TestNoLinkedFolderIsUsed(t *testing.T) {
	t.Parallel()
	needLocks(t)
	for name, beside := range map[string]bool{"elsewhere": false, "beside the database": true} {
		db := newDatabase(t)
		target := t.TempDir()
		if beside {
			target = db + "-target"
			if err := os.Mkdir(target, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		precious := filepath.Join(target, presencePrefix+"abc")
		if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, db+"-wake"); err != nil {
			t.Fatal(err)
		}
		p := &presence{folder: newFolder(db, slog.New(slog.DiscardHandler))}
		p.announce()
		for _, d := range p.findDead() {
			t.Errorf("%s: found a dead process", name)
			d.close(true)
		}
		p.close()
		if left, err := os.ReadDir(target); err != nil || len(left) != 1 {
			t.Errorf("%s: got files %v (%v), want the one from before", name, left, err)
		}
	}
}
