package sqlite

import (
	"fmt"
	"os"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// A syncer waits for the disk beside the writer, and then answers the late ops: deletions. Other callers may see that
// a message is gone before the disk has the deletion. That breaks no promise:
//
//   - Their later writes come later in the same log, so they aren't kept without the deletion.
//   - When a power failure brings the message back, its delivery is a repeat like any other.
type syncer struct {
	place *place
	log   *os.File
	sync  func() error // log.Sync, except in a test
	in    chan []*op   // ops of groups, or nil for a sync alone; when it is full the writer waits for the disk
	ended chan struct{}
}

// newSyncer opens the log. The log exists once a connection has read, and as long as a connection is open. Closing
// the log drops no lock: SQLite has none on this file.
func newSyncer(p *place, path string) (*syncer, error) {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	info, err := log.Stat()
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	shmPath := strings.TrimSuffix(path, "-wal") + "-shm"
	shm, err := os.Stat(shmPath)
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	p.watch(path, info) // both files stay the same as long as a connection is open
	p.watch(shmPath, shm)
	if err := p.checkNow(); err != nil { // log and shared memory are another file's
		log.Close()
		return nil, err
	}
	y := &syncer{place: p, log: log, sync: log.Sync, in: make(chan []*op, 16), ended: make(chan struct{})}
	go y.loop()
	return y, nil
}

// loop answers committed ops. One sync serves all ops that came before it began.
func (y *syncer) loop() {
	defer close(y.ended)
	for ops := range y.in {
		for range len(y.in) {
			ops = append(ops, <-y.in...)
		}
		err := y.place.check()
		if err == nil {
			if err = y.sync(); err != nil {
				err = y.place.unsynced(err)
			} else {
				err = y.place.checkNow()
			}
		}
		for _, o := range ops {
			if err != nil {
				o.err = err
			}
			o.done <- o.err
		}
	}
}

// finish answers the ops that are left, after the writer's goroutine has handed over its last.
func (y *syncer) finish() {
	close(y.in)
	<-y.ended
	y.log.Close()
}
