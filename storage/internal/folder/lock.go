package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// manyLocks is the number of locks in a folder. Keys share them, because a lock that is removed with its key excludes
// nobody who has opened the lock before.
const manyLocks = 64

// lockStep is the time between two looks at the lock of another process. Nothing tells when it is free.
const (
	lockStep    = time.Millisecond
	maxLockStep = 20 * time.Millisecond
)

// locks let one call at a time give names to a key's files. These are the turns of this process.
type locks []chan struct{}

func newLocks() locks {
	turns := make(locks, manyLocks)
	for i := range turns {
		turns[i] = make(chan struct{}, 1)
	}
	return turns
}

// lock waits until nobody else, here or in another process, has the lock of a key. The caller calls unlock once.
func (l locks) lock(ctx context.Context, s *shelf) (unlock func(), err error) {
	turn := l[s.place.lock]
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := s.lockFile()
	if err == nil {
		err = lockAgainstOthers(ctx, f)
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		<-turn
		return nil, s.root.fail(err)
	}
	return func() {
		_ = f.Close() // the lock goes with it
		<-turn
	}, nil
}

// lockFile opens the file of a lock.
func (s *shelf) lockFile() (*os.File, error) {
	name := fmt.Sprintf("%s/%02d", lockDir, s.place.lock)
	f, err := s.root.tree.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // another process is about to make the folder
		if err = s.root.makeDir(".", lockDir); err == nil {
			f, err = s.root.tree.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if err == nil {
		err = s.root.give(name)
	}
	return f, err
}

// lockAgainstOthers locks a file against other processes.
func lockAgainstOthers(ctx context.Context, f *os.File) error {
	for step := lockStep; ; step = min(2*step, maxLockStep) {
		if locked, err := tryLock(f); locked || err != nil {
			return err
		}
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
