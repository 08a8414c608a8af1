package engine

import "os"

// A syncer waits for the disk beside the writer, and then answers the late ops. While it waits, the writer goes on.
//
// Other callers may see what a late op did before the disk has it. Their later writes come later in the same log, so
// they aren't kept without it.
type syncer struct {
	file  *file
	log   *os.File
	sync  func() error // log.Sync, except in a test
	in    chan []*Op   // ops of groups, or nil for a sync alone; when it is full the writer waits for the disk
	ended chan struct{}
}

func newSyncer(f *file, log *os.File) *syncer {
	y := &syncer{file: f, log: log, sync: log.Sync, in: make(chan []*Op, 16), ended: make(chan struct{})}
	go y.loop()
	return y
}

// answerSynced has committed ops answered once the log is synced.
func (y *syncer) answerSynced(ops []*Op) { y.in <- ops }

// syncSoon has the log synced.
func (y *syncer) syncSoon() { y.in <- nil }

// loop answers committed ops. One sync serves all ops that came before it began.
func (y *syncer) loop() {
	defer close(y.ended)
	for ops := range y.in {
		for range len(y.in) {
			ops = append(ops, <-y.in...)
		}
		err := y.file.check()
		if err == nil {
			if err = y.sync(); err != nil {
				err = y.file.disk.unsynced(err)
			} else {
				err = y.file.checkNow()
			}
		}
		for _, o := range ops {
			o.answer(err)
		}
	}
}

// finish answers the ops that are left, after the writer has handed over its last.
func (y *syncer) finish() {
	close(y.in)
	<-y.ended
}
