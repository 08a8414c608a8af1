package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// program opens the files in a folder, as each program does for itself.
func program(t *testing.T, dir string) *process {
	t.Helper()
	var stores []*storage.Store
	for i := range 3 {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(i))+"?wake=off&sync=normal")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // a file that was lost can't be closed well
		stores = append(stores, s)
	}
	return newProcess(stores)
}

// A file is lost under two programs, one of which holds the lock. They go on with the other files and never use the one
// that was made anew. Each uses it once it is started again, in any order, and there are never two holders.
func TestAFileIsMadeAnewAndTheProgramsAreRestartedOneByOne(t *testing.T) {
	t.Parallel()
	const lost = 2
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var seen watch
		holds := func(p *process) *quorum.Lock {
			t.Helper()
			l := acquire(t, p.stores)
			seen.see(t, l)
			return l
		}
		works := func(p *process, want bool) {
			t.Helper()
			_, err := p.stores[lost].Blobs("quorum").Get(t.Context(), name, "")
			if works := err == nil; works != want {
				t.Errorf("the store that was lost works: %v (%v), want %v", works, err, want)
			}
		}
		first, second := program(t, dir), program(t, dir)
		l := holds(first)
		synctest.Wait() // until all files know the lock
		if next, err := try(second.stores); !errors.Is(err, quorum.ErrHeld) {
			t.Fatalf("got lock %d, %v", drop(next), err)
		}
		for _, end := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(filepath.Join(dir, fmt.Sprint(lost)) + end); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * ttl)

		second = program(t, dir) // which makes the file anew
		for range 10 {
			if next, err := try(second.stores); !errors.Is(err, quorum.ErrHeld) {
				t.Errorf("the program that was restarted gets lock %d beside the holder, %v", drop(next), err)
			}
			time.Sleep(ttl / 3)
		}
		if err := l.Context().Err(); err != nil {
			t.Errorf("the holder that wasn't restarted lost its lock: %v", context.Cause(l.Context()))
		}
		works(first, false)
		release(t, l)

		l = holds(second)
		time.Sleep(2 * ttl) // until the new file has learnt of the lock
		works(second, true)
		second.cut(0)
		first.cut(0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
		defer cancel()
		if next, err := quorum.Acquire(ctx, first.stores, name, quorum.Config{TTL: ttl}); err == nil {
			t.Errorf("a program that wasn't restarted gets lock %d by one file of three", drop(next))
		}
		if err := l.Context().Err(); err != nil {
			t.Errorf("the holder lost its lock with a majority, the new file in it: %v", context.Cause(l.Context()))
		}
		release(t, l)

		first = program(t, dir)
		first.cut(0)
		begin := time.Now()
		l = holds(first)
		if took := time.Since(begin); took > 0 {
			t.Errorf("with the new file and one more the lock was had after %v, want at once", took)
		}
		works(first, true)
		release(t, l)
		time.Sleep(4 * ttl) // calls that hang end
	})
}
