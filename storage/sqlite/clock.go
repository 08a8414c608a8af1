package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// noteEvery is about how often a store that works writes the file's time down.
const noteEvery = time.Minute

// A clock tells a file's time, in microseconds. It decides when delays and visibilities end. It begins at the wall
// clock, at the first opening since the machine was started. From then on it counts what the monotonic clock counts.
// The file holds how far its time is ahead of the monotonic clock. So all stores of that boot have the same time,
// whatever becomes of the wall clock.
//
// The next boot begins at the wall clock, but not before the time that was last written down. So a message that was
// receivable stays receivable, to within noteEvery, where the wall clock has lost its time.
//
// The zero clock is the wall clock. It is used where processes share no monotonic clock, and with wake=off unless
// the file has a time in this boot.
type clock struct {
	boot  string    // see bootName
	start time.Time // when the file's time was base
	base  int64
}

// at returns the file's time at t, a result of time.Now.
func (k clock) at(t time.Time) int64 {
	if k.boot == "" {
		return micros(t)
	}
	return k.base + t.Sub(k.start).Microseconds()
}

// findClock finds the file's time. With begin set it begins the time at the first opening of a boot.
func findClock(ctx context.Context, c *engine.Conn, begin bool) (clock, error) {
	boot := bootName()
	start, at, ok := readMonotonic()
	if boot == "" || !ok {
		return clock{}, nil
	}
	var ahead int64
	err := engine.Retry(ctx, func() (err error) {
		ahead, ok, err = clockAhead(c, boot)
		return err
	})
	if err == nil && !ok {
		if !begin {
			return clock{}, nil
		}
		ahead, err = beginClock(ctx, c, boot, micros(start), at.Microseconds())
	}
	if err != nil {
		return clock{}, err
	}
	return clock{boot, start, ahead + at.Microseconds()}, nil
}

// readMonotonic reads the monotonic clock, and the time at which it was read, to some hundred nanoseconds.
func readMonotonic() (start time.Time, at time.Duration, ok bool) {
	const tries = 5 // another goroutine may run between two readings, though hardly every time
	best := time.Duration(-1)
	for range tries {
		before := time.Now()
		now, read := monotonic()
		if !read {
			return time.Time{}, 0, false
		}
		after := time.Now()
		if took := after.Sub(before); best < 0 || took < best {
			best, start, at = took, after, now
		}
	}
	return start, at, true
}

// clockAhead reads how far the file's time is ahead of the monotonic clock of a boot. ok is false when the boot has
// none yet.
func clockAhead(c *engine.Conn, boot string) (ahead int64, ok bool, err error) {
	s := c.Stmt("SELECT ahead FROM clocks WHERE boot = ?1").Text(1, boot)
	if ok, err = s.Step(); !ok {
		return 0, false, err
	}
	ahead = s.ColInt(0)
	s.Reset()
	return ahead, true, nil
}

// beginClock begins the file's time for a boot, unless another process has done so meanwhile.
func beginClock(ctx context.Context, c *engine.Conn, boot string, wall, at int64) (ahead int64, err error) {
	if err := engine.Retry(ctx, c.Stmt("BEGIN IMMEDIATE").Run); err != nil {
		return 0, err
	}
	defer func() {
		if c.InTransaction() {
			c.Stmt("ROLLBACK").Run() // the first error tells more
		}
	}()
	ahead, ok, err := clockAhead(c, boot)
	if err != nil || ok {
		return ahead, err
	}
	seen, err := c.OneInt("SELECT ifnull(max(seen), 0) FROM clocks")
	if err != nil {
		return 0, err
	}
	now := max(wall, seen)
	id, _, _ := strings.Cut(boot, " ")
	// The clocks of other time namespaces of this boot go on. The clocks of other boots don't.
	if err := c.Stmt("DELETE FROM clocks WHERE boot < ?1").Text(1, id).Run(); err != nil {
		return 0, err
	}
	if err := c.Stmt("DELETE FROM clocks WHERE boot > ?1").Text(1, id+"!").Run(); err != nil { // the byte after a space
		return 0, err
	}
	if err := c.Stmt("INSERT INTO clocks VALUES (?1, ?2, ?3)").Text(1, boot).Int(2, now-at).Int(3, now).Run(); err != nil {
		return 0, err
	}
	return now - at, c.Stmt("COMMIT").Run()
}

// noteTime writes the file's time down, in a transaction that writes anyway.
func (w *tx) noteTime() error {
	if w.s.clock.boot == "" || w.at-w.noted < noteEvery.Microseconds() {
		return nil
	}
	w.noted = w.at
	return w.c.Stmt("UPDATE clocks SET seen = ?2 WHERE boot = ?1 AND seen < ?2").Text(1, w.s.clock.boot).Int(2, w.at).Run()
}
