package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	// maxGroup and maxGroupBytes bound one transaction, and with it how long the first caller in it waits
	// for the last. One op may be larger.
	maxGroup      = 512
	maxGroupBytes = 4 << 20

	// maxYields bounds the turns of others, without a new op, before a group is taken as it is.
	maxYields = 1000

	cacheSize = "PRAGMA cache_size = -16000"
)

// An op is one caller's work for the writer.
type op struct {
	ctx  context.Context
	size int // bytes that it writes, about

	// early: it runs before others of its group.
	early bool

	// aside: its caller has others do what follows, so nothing is gained by waiting for it.
	aside bool

	// late: others may see its effect before the disk has it. Its caller waits for the disk, beside the writer.
	late bool

	// relaxed: losing the effect to a power failure breaks no promise.
	relaxed bool

	// run does the work inside the transaction. With an error of SQLite's the whole transaction is undone;
	// with any other error run must have changed nothing.
	run func(w *writer) error

	err  error
	done chan error // of capacity 1

	mu      sync.Mutex // held while run runs
	dropped bool       // the caller has left: run would use what is the caller's again
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
		// It may have come in after the writer's last look.
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

	relaxed  bool             // the connection commits without waiting for the disk just now
	now      time.Time        // of the transaction that is open
	at       int64            // likewise, by the file's clock
	noted    int64            // the file's time that was written down last
	placed   []placed         // by it, not yet written
	removals []removal        // asked of it, not yet done
	effects  effects          // of the transaction that is open
	wants    map[string]*want // likewise, by queue
	chosen   []chosen         // likewise, the awaits among them
	ckpt     *checkpointer
	syncer   *syncer
	vacuum   *time.Timer // for tidy
	waits    bool        // vacuum runs
	steps    int         // that tidy has taken among other work since the log was last copied for it
	lately   bool        // something was written since it last ran

	logEnd      logEnd
	stretched   bool // lengthenAtRest has no more to do
	readerWatch readerWatch

	wrote    bool          // something, as of the last group
	quick    time.Duration // how long a small group takes, about: the least lately
	answered int           // how many ops of the last group were not aside
	waiting  int           // how many had come before they were answered
}

// effects are what becomes true with the commit.
type effects struct {
	names []named
	due   []due
}

// due tells when a queue has something.
type due struct {
	queue string
	at    time.Time
	sent  bool // and other processes should know
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
	w.readerWatch = readerWatch{path: c.logPath(), frame: w.logEnd.frame, limit: logHeld, log: slog.Default()}
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
			w.relax(w.normal) // so that a lone send need not wait for that; what fails is tried again
		}
		select {
		case o := <-w.s.ops:
			group = w.collect(group[:0], o)
			w.do(group)
			clear(group)
			if w.checkpoint() { // idle workers look in vain without end
				w.tidyLater()
			}
		case did := <-w.ckpt.done:
			w.ckpt.running = false
			if w.s.place.check() == nil { // else the log may be another file's by now
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

// collect makes a group of an op, of what waits, and of what may soon come: a group of all costs the disk little more than a
// group of half of them. Those who were answered last may, unless it was one alone, and those who came meanwhile have.
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

// another returns the op that comes next, or nil. While one is expected it lets other goroutines run, as long as the next one takes
// less than a commit's time divided by the n who wait: what each of them loses, one more would save. In virtual time none passes
// meanwhile, so turns are counted too.
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
		case !expected || yields == maxYields || time.Since(began) > w.quick/time.Duration(n):
			return nil
		}
		runtime.Gosched()
	}
}

// do runs a group and answers. When it can't be committed, each op gets a transaction of its own, so that
// one that is too large for the disk, say, does not take the others with it.
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
	if err == nil && w.relaxed == w.normal { // others take less than those that are worth gathering for
		w.quick = min(time.Since(began), w.quick+w.quick/32+time.Microsecond)
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
	if err == nil { // after the answers: what is handed over can be handled while the next group commits
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
	w.now, w.placed = time.Now(), w.placed[:0] // one time for all: what is sent together can be placed together
	w.at = w.s.clock.at(w.now)
	w.removals = w.removals[:0]
	w.effects.names, w.effects.due = w.effects.names[:0], w.effects.due[:0]
	defer func() { clear(w.wants); clear(w.removals) }() // they refer to what is the callers'
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

// allGone says why nobody waits for the group any more.
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

// one runs an op, unless its caller has left. The error is one that ends the group.
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
// A group of claims and extensions need not wait, nor one with deletions, which are late. The log is
// written in order, so after a power failure it holds a beginning of what was written, and any later commit that
// waits makes them durable too. Losing the end of it means that messages appear unclaimed to a machine on which every
// holder of a claim is dead: they are delivered once more, sooner than otherwise. Everything else was promised to its
// caller.
//
// Changing it costs some 2 µs, 30 after a rest; a sync of the disk a hundred or more.
func (w *writer) relax(relaxed bool) error {
	if relaxed == w.relaxed {
		return nil
	}
	mode := "PRAGMA synchronous = FULL"
	if relaxed {
		mode = "PRAGMA synchronous = NORMAL"
	}
	// Not kept as a prepared statement: it takes effect when it is compiled.
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
		// As much as other processes let us. The last process's close does the rest.
		err = w.s.place.saw(w.c.exec(passiveCheckpoint))
	}
	if err != nil && busy(err) {
		err = nil
	}
	if w.s.place.checkNow() != nil {
		w.c.keepLog() // or it would be copied
	}
	return errors.Join(err, w.c.close())
}

// after returns the file's time at which d will have passed since the transaction began.
func (w *writer) after(d time.Duration) int64 { return w.at + d.Microseconds() }

// micros is a time of the wall clock as it is stored.
func micros(t time.Time) int64 { return t.UnixMicro() }

var _ driver.Committer = (*store)(nil)
