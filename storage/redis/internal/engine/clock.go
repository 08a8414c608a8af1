package engine

import (
	"strconv"
	"sync"
	"time"
)

// clock is what this process knows of the store's time, in microseconds.
type clock struct {
	virtual bool // the store's time is time.Now of this process

	mu   sync.Mutex
	at   int64     // the largest time that the store has told; 0: none yet
	when time.Time // when it told that, at the latest
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
	at, when := c.at, c.when
	c.mu.Unlock()
	if at == 0 {
		return "0", "0", ""
	}
	passed := time.Since(when)
	return strconv.FormatInt(at, 10), strconv.FormatInt(at+(passed+passed/drift+jump).Microseconds(), 10), ""
}

// told notes the store's time in a reply to a call that was made at asked.
func (c *clock) told(at int64, asked time.Time) {
	if c.virtual {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at > c.at {
		c.at, c.when = at, asked
	}
}

// Now returns the store's time, as far as this process knows it.
func (e *Engine) Now() int64 {
	c := &e.caller.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.virtual || c.at == 0 {
		return time.Now().UnixMicro()
	}
	return c.at + time.Since(c.when).Microseconds()
}

// Time returns a time of the store as this process's wall clock tells it.
func Time(micros int64) time.Time { return time.UnixMicro(micros) }
