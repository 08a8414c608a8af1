package engine

import (
	"strconv"
	"sync"
	"time"
)

// clock is what this process knows of the store's time, in microseconds.
type clock struct {
	virtual bool // the store's time is time.Now of this process

	mu    sync.Mutex
	at    int64     // the largest time that the store has told; 0: none yet
	asked time.Time // it told that after this moment,
	heard time.Time // and before this one
	last  int64     // the largest time that Now has returned
}

const (
	// jump is how far the store's time may be ahead of this process's before it counts as a jump.
	jump = time.Second

	// drift is by which part two good clocks may differ.
	drift = 1000
)

// args returns the arguments by which a script judges its server's clock: the least and the greatest time that this
// process believes, and the time itself where it is virtual.
func (c *clock) args() (least, most, virtual string) {
	if c.virtual {
		return "0", "0", strconv.FormatInt(time.Now().UnixMicro(), 10)
	}
	c.mu.Lock()
	at, asked := c.at, c.asked
	c.mu.Unlock()
	if at == 0 {
		return "0", "0", ""
	}
	passed := time.Since(asked)
	return strconv.FormatInt(at, 10), strconv.FormatInt(at+(passed+passed/drift+jump).Microseconds(), 10), ""
}

// jumped judges the time that a script has refused, because the time is ahead of what this process believed when it
// made the call. Only now is it known how long the call took. So what is too much even so is a jump, and jumped returns
// how much to take away; else it returns 0.
func (c *clock) jumped(at int64, asked time.Time) (less int64) {
	c.mu.Lock()
	expected := c.at + time.Since(c.asked).Microseconds()
	bound := expected + (time.Since(c.asked)/drift + jump).Microseconds()
	known := c.at > 0
	c.mu.Unlock()
	if known && at > bound {
		return at - expected
	}
	c.told(at, asked)
	return 0
}

// told notes the store's time in a reply to a call that was made at asked.
func (c *clock) told(at int64, asked time.Time) {
	if c.virtual {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at > c.at {
		c.at, c.asked, c.heard = at, asked, time.Now()
	}
}

// Now returns the store's time, as far as this process knows it: it isn't ahead of the store, and doesn't go back.
func (e *Engine) Now() int64 {
	c := &e.caller.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.virtual || c.at == 0 {
		return time.Now().UnixMicro()
	}
	c.last = max(c.last, c.at+time.Since(c.heard).Microseconds())
	return c.last
}

// Time returns a time of the store as this process's wall clock tells it.
func Time(micros int64) time.Time { return time.UnixMicro(micros) }
