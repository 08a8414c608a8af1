package engine

import "time"

// SQLite uses free pages again. Free pages above a reserve are given back to the file system, in steps short enough
// for a caller to wait for. While there is nothing else to do the steps follow each other. Otherwise they are so few
// that other work loses some hundredths.
const (
	tidyIdle  = time.Second
	tidyPause = 2 * time.Millisecond
	tidyBusy  = 100 * time.Millisecond
	tidyCopy  = 32 // steps after which the log is copied beside other work: only a copy makes the file shorter
	tidyStep  = "PRAGMA incremental_vacuum(256)"
	tidyKeep  = 2048 // pages (8 MB)
)

// A tidier gives free pages back to the file system. It belongs to the writer's goroutine.
type tidier struct {
	file *file
	c    *Conn
	mode *syncMode
	ckpt *checkpointer

	timer     *time.Timer // the writer calls run when it fires
	scheduled bool        // timer is set
	steps     int         // among other work, since the log was last copied for it
	wrote     bool        // something was written since run last ran
}

func newTidier(f *file, c *Conn, mode *syncMode, k *checkpointer) *tidier {
	t := &tidier{file: f, c: c, mode: mode, ckpt: k, timer: time.NewTimer(time.Hour)}
	t.timer.Stop()
	return t
}

// runLater has run called in a while, because something was written.
func (t *tidier) runLater() {
	t.wrote = true
	if !t.scheduled {
		t.runIn(tidyIdle)
	}
}

func (t *tidier) runIn(d time.Duration) {
	t.scheduled = true
	t.timer.Reset(d)
}

// run gives some free pages back: many while nothing else is written, fewer among other work. When no more are left it
// copies the log, which makes the file shorter.
func (t *tidier) run() {
	t.scheduled = false
	wrote := t.wrote
	t.wrote = false
	free, err := t.c.OneInt("PRAGMA freelist_count")
	if err == nil && free > tidyKeep {
		err = t.mode.relax(true) // no caller waits for an empty page
		if err == nil {
			err = t.c.Exec(tidyStep)
		}
		if err == nil {
			t.ckpt.noteWritten()
			t.steps++
		}
	}
	switch k := t.ckpt; {
	case err != nil && busy(err):
		t.runIn(tidyIdle)
	case err == nil && wrote:
		most := 0
		if free > tidyKeep {
			most = tidyCopy
			t.runIn(tidyBusy)
		} else {
			t.runIn(tidyIdle)
		}
		if t.steps > most && !k.running {
			t.steps = 0
			k.begin()
		}
	case err != nil: // run is called again after the next write
	case free > tidyKeep:
		t.runIn(tidyPause)
	case k.pages > 0 && !k.running:
		k.begin()
	}
}
