package sqlite

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	// maxGroup and maxGroupBytes bound one transaction, and so how long the first caller in it waits for the last. One
	// op may be larger.
	maxGroup      = 512
	maxGroupBytes = 4 << 20

	// maxYields is how often the writer lets other goroutines run while no op comes. Then it takes the group as it is.
	maxYields = 1000

	cacheSize = "PRAGMA cache_size = -16000"
)

// An op is one caller's work for the writer.
type op struct {
	ctx  context.Context
	size int // bytes that it writes, about

	// early: it runs before the other ops of its group.
	early bool

	// aside: other goroutines do what follows this op, so the writer gains nothing by waiting for its caller.
	aside bool

	// late: others may see its effect before the disk has it. The syncer, beside the writer, waits for the disk and
	// answers.
	late bool

	// relaxed: losing the effect to a power failure breaks no promise.
	relaxed bool

	// run does the work inside the transaction. An error of SQLite's undoes the whole transaction. With any other error,
	// run must have changed nothing.
	run func(w *writer) error

	err  error
	done chan error // of capacity 1

	mu      sync.Mutex // held while run runs
	dropped bool       // the caller has left and may use its memory again: run must not
}

// write hands an op to the writer and waits for its commit.
func (s *store) write(o *op) error {
	if o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	o.done = make(chan error, 1)
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	select {
	case s.ops <- o:
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	case <-s.closing:
		return errClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-o.ctx.Done():
		o.mu.Lock()
		o.dropped = true
		o.mu.Unlock()
		return context.Cause(o.ctx)
	case <-s.stopped:
		// The op may have come in after the writer's last look.
		select {
		case err := <-o.done:
			return err
		default:
			return errClosed
		}
	}
}

// A writer owns the connection that writes. All fields belong to its goroutine.
type writer struct {
	s      *store
	c      *conn
	normal bool // sync=normal: no commit waits for the disk

	relaxed         bool             // the connection commits without waiting for the disk at present
	now             time.Time        // of the transaction that is open
	at              int64            // likewise, by the file's clock
	noted           int64            // the file's time that was written down last
	placed          []placed         // messages that it has inserted, without their places yet
	removals        []removal        // that it has yet to carry out
	effects         effects          // of the transaction that is open
	wants           map[string]*want // likewise, by queue
	chosen          []chosen         // the awaits among wants
	ckpt            *checkpointer
	syncer          *syncer
	vacuum          *time.Timer // for tidy
	vacuumScheduled bool        // vacuum is set
	steps           int         // of tidy among other work, since the log was last copied for it
	wroteSinceTidy  bool        // something was written since tidy last ran

	logEnd      logEnd
	logExtended bool // lengthenAtRest has no more to do
	readerWatch readerWatch

	wrote        bool          // something, up to the last group
	minGroupTime time.Duration // the least time that a group took lately, so about a small group's
	answered     int           // ops of the last group that were not aside
	waiting      int           // ops that had come before the last group was answered
}

// effects become true with the commit.
type effects struct {
	names []named
	due   []due
}

// due tells when a queue has something.
type due struct {
	queue string
	at    time.Time
	sent  bool // other processes should know, too
}

func newWriter(s *store, c *conn, normal bool) (*writer, error) {
	w := &writer{s: s, c: c, normal: normal, wants: map[string]*want{}}
	err := c.exec(
		"PRAGMA synchronous = FULL",
		cacheSize,
		"PRAGMA temp_store = MEMORY",
		"PRAGMA wal_autocheckpoint = 0",
		"PRAGMA journal_size_limit = 16777216",
	)
	if err == nil && normal {
		err = w.relax(true)
	}
	if err != nil {
		return nil, err
	}
	page, err := c.oneInt("PRAGMA page_size")
	if err != nil {
		return nil, err
	}
	w.logEnd.frame = logFrameHeader + page
	w.readerWatch = readerWatch{path: c.logPath(), frame: w.logEnd.frame, limit: logHeld, log: s.log}
	c.noteLogPages() // not before wal_autocheckpoint is set, which stops it
	w.ckpt, err = newCheckpointer(s.place)
	if err != nil {
		return nil, err
	}
	w.syncer, err = newSyncer(s.place, c.logPath())
	if err != nil {
		w.ckpt.close()
		return nil, err
	}
	w.vacuum = time.NewTimer(time.Hour)
	w.vacuum.Stop()
	return w, nil
}

// loop runs groups of ops until the store closes.
func (w *writer) loop() {
	defer close(w.s.stopped)
	defer w.syncer.finish()
	group := make([]*op, 0, maxGroup)
	for {
		if len(w.s.ops) == 0 {
			w.relax(w.normal) // now, so that a lone send need not wait for it; a failure is tried again
		}
		select {
		case o := <-w.s.ops:
			group = w.collect(group[:0], o)
			w.do(group)
			clear(group)
			if w.checkpoint() { // a look of an idle worker writes nothing
				w.tidyLater()
			}
		case did := <-w.ckpt.done:
			w.ckpt.running = false
			if w.s.place.check() == nil { // otherwise the log may be another file's by now
				w.finishCheckpoint(did)
			}
		case <-w.vacuum.C:
			if w.s.place.check() == nil {
				w.tidy()
			}
		case <-w.s.closing:
			for {
				select {
				case o := <-w.s.ops:
					w.do(append(group[:0], o))
				default:
					return
				}
			}
		}
	}
}

// collect makes a group of an op, the ops that wait, and the ops that may soon come. A group of all costs the disk
// little more than a group of half of them. collect expects as many more ops as callers were answered last, because
// each may soon send the next. It expects none of them when one op alone was answered and none had come meanwhile.
// Ops that had come before the answers count apart: they are in this group already.
func (w *writer) collect(group []*op, o *op) []*op {
	bytes, come, expected := 0, 0, w.answered
	if w.answered+w.waiting == 1 {
		expected = 0
	}
	for o != nil {
		group = append(group, o)
		bytes += o.size
		if !o.aside {
			come++
			if len(group) <= w.waiting {
				expected++
			}
		}
		if len(group) == maxGroup || bytes >= maxGroupBytes {
			break
		}
		o = w.another(len(group), come < expected)
	}
	return group
}

// another returns the next op, or nil. While one is expected it lets other goroutines run, as long as an op takes
// less than a group's least time divided by the n callers that wait: each of them loses the time that one more op
// would save. In virtual time none passes meanwhile, so turns are counted too.
func (w *writer) another(n int, expected bool) *op {
	var began time.Time
	for yields := 0; ; yields++ {
		select {
		case o := <-w.s.ops:
			return o
		default:
		}
		switch {
		case yields == 0:
			began = time.Now()
		case !expected || yields == maxYields || time.Since(began) > w.minGroupTime/time.Duration(n):
			return nil
		}
		runtime.Gosched()
	}
}

// do runs a group and answers. When the group can't be committed, each op gets a transaction of its own. So one op
// that is too large for the disk, say, does not take the others with it.
func (w *writer) do(group []*op) {
	began := time.Now()
	err := w.transact(group)
	var e *Error
	if len(group) > 1 && errors.As(err, &e) && e.primary() != sqlite3.SQLITE_IOERR && !busy(err) {
		for i := range group {
			w.do(group[i : i+1])
		}
		return
	}
	if err == nil && w.relaxed == w.normal { // other groups take less time, and are not worth gathering for
		w.minGroupTime = min(time.Since(began), w.minGroupTime+w.minGroupTime/32+time.Microsecond)
	}
	var later []*op
	w.answered, w.waiting = 0, len(w.s.ops)
	for _, o := range group {
		if !o.aside {
			w.answered++
		}
		if err == nil && o.late && w.relaxed && !w.normal {
			later = append(later, o)
			continue
		}
		if err != nil {
			o.err = err
		}
		o.done <- o.err
	}
	if len(later) > 0 {
		w.syncer.in <- later
	}
	if err == nil { // after the answers: a consumer can handle its message while the next group commits
		w.settle(true)
		w.s.publish(w.effects.due)
	}
}

// transact runs a group in one transaction. The error is of the whole group: nothing of it was done.
func (w *writer) transact(group []*op) (err error) {
	relaxed := true
	for _, o := range group {
		relaxed = relaxed && (o.relaxed || o.late)
	}
	if err := w.relax(relaxed || w.normal); err != nil {
		return err
	}
	if err := patient(allGone(group), w.c.stmt("BEGIN IMMEDIATE").run); err != nil {
		return err
	}
	w.now, w.placed = time.Now(), w.placed[:0] // one time for all, so that messages sent together can be placed together
	w.at = w.s.clock.at(w.now)
	w.removals = w.removals[:0]
	w.effects.names, w.effects.due = w.effects.names[:0], w.effects.due[:0]
	defer func() { clear(w.wants); clear(w.removals) }() // they refer to the callers' memory
	for _, early := range []bool{true, false} {          // calls that wait together may come in any order
		for _, o := range group {
			if err == nil && o.early == early {
				err = w.one(o)
			}
		}
	}
	if err == nil {
		err = w.place()
	}
	if err == nil {
		err = w.deleteAll()
	}
	if err == nil {
		err = w.s.place.check()
	}
	if err == nil {
		w.lengthen()
		err = w.s.place.saw(w.c.stmt("COMMIT").run())
	}
	if err == nil {
		err = w.s.place.checkNow() // the commit may have gone to a file that was lost meanwhile
	}
	if err != nil {
		if w.c.inTransaction() {
			w.c.stmt("ROLLBACK").run() // the first error tells more
		}
		w.settle(false)
		return err
	}
	w.s.names.add(w.effects.names)
	return nil
}

// allGone returns why no caller waits for the group any more, or nil while one does.
func allGone(group []*op) func() error {
	return func() error {
		for _, o := range group {
			if o.ctx.Err() == nil {
				return nil
			}
		}
		return context.Cause(group[0].ctx)
	}
}

// one runs an op, unless its caller has left. It returns only an error that ends the group.
func (w *writer) one(o *op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped || o.ctx.Err() != nil {
		o.err = context.Cause(o.ctx)
		return nil
	}
	o.err = o.run(w)
	var e *Error
	if errors.As(o.err, &e) {
		return o.err
	}
	return nil
}

// relax sets whether commits wait until the disk has the log.
//
// A group of claims and extensions need not wait, nor need one with deletions, which are late. The log is written in
// order. So after a power failure it holds a beginning of what was written, and any later commit that waits makes all
// before it durable too. If the end of the log is lost, messages appear unclaimed on a machine where every process
// that had claims is dead: they are delivered once more, sooner than otherwise. All other ops were promised to their
// callers.
//
// A change of the setting costs some 2 µs, 30 after a rest. A sync of the disk costs a hundred or more.
func (w *writer) relax(relaxed bool) error {
	if relaxed == w.relaxed {
		return nil
	}
	mode := "PRAGMA synchronous = FULL"
	if relaxed {
		mode = "PRAGMA synchronous = NORMAL"
	}
	// Not kept as a prepared statement: the setting takes effect when the statement is compiled.
	if err := w.c.exec(mode); err != nil {
		return err
	}
	w.relaxed = relaxed
	return nil
}

// close ends the writer's connections, after its goroutine has ended.
func (w *writer) close() error {
	w.vacuum.Stop()
	w.ckpt.close()
	var err error
	if (w.wrote || w.c.pagesWritten() > 0) && w.s.place.checkNow() == nil {
		// As much as other processes allow. The last process's close does the rest.
		err = w.s.place.saw(w.c.exec(passiveCheckpoint))
	}
	if err != nil && busy(err) {
		err = nil
	}
	if w.s.place.checkNow() != nil {
		w.c.keepLog() // or close would copy it
	}
	return errors.Join(err, w.c.close())
}

// after returns the file's time at which d will have passed since the transaction began.
func (w *writer) after(d time.Duration) int64 { return w.at + d.Microseconds() }

// micros is a time of the wall clock as it is stored.
func micros(t time.Time) int64 { return t.UnixMicro() }

var _ driver.Committer = (*store)(nil)
