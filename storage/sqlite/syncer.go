package sqlite

import (
	"fmt"
	"os"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// A syncer waits for the disk beside the writer, and then answers what is late: deletions. It breaks no promise that others see a message
// gone before the disk has it. What they write on the strength of that comes later in the same log, so it isn't kept without the
// deletion; and when a power failure brings the message back, it is a repeat like any other.
type syncer struct {
	place *place
	log   *os.File
	sync  func() error // log.Sync, but in a test
	in    chan []*op   // of groups, or nil for a sync alone; when it is full the writer waits for the disk
	ended chan struct{}
}

// newSyncer opens the log, which is there once a connection has read, and as long as one is open. Closing it drops no lock: SQLite has
// none on this file.
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
	p.watch(path, info) // both stay the same for as long as a connection is open
	p.watch(shmPath, shm)
	if err := p.checkNow(); err != nil { // then they are another file's
		log.Close()
		return nil, err
	}
	y := &syncer{place: p, log: log, sync: log.Sync, in: make(chan []*op, 16), ended: make(chan struct{})}
	go y.loop()
	return y, nil
}

// loop answers ops that were committed. One sync serves all that were before it began.
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

// finish answers what is left, after the writer's goroutine has given its last.
func (y *syncer) finish() {
	close(y.in)
	<-y.ended
	y.log.Close()
}
