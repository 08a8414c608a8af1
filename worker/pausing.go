package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const logPausesEvery = time.Second // changes that come sooner are logged together

// pauseLog logs when a queue is paused and when it is consumed. A limiter may pause it very often, so there is at most
// one line a second, and none for a pause that is over by then. A second after any change, the last line is true.
type pauseLog struct {
	log *slog.Logger

	mu     sync.Mutex
	limits Limits    // in force
	paused bool      // the last line says so
	last   time.Time // when it was written
	later  *time.Timer
}

// newPauseLog returns the log of a queue that is consumed from now on.
func newPauseLog(log *slog.Logger) *pauseLog { return &pauseLog{log: log, last: time.Now()} }

// set notes the limits that are in force from now on.
func (p *pauseLog) set(limits Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limits.Pause = limits.Pause && !limits.Brief
	p.limits = limits
	switch early := logPausesEvery - time.Since(p.last); {
	case p.later != nil: // it will see these limits
	case early > 0 && limits.Pause != p.paused:
		p.later = time.AfterFunc(early, p.catchUp)
	default:
		p.write()
	}
}

// catchUp logs what came too soon after the last line.
func (p *pauseLog) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later != nil {
		p.later = nil
		p.write()
	}
}

// write logs whether the queue is paused, if the last line says otherwise. The caller holds the mutex.
func (p *pauseLog) write() {
	if p.limits.Pause == p.paused {
		return
	}
	p.paused, p.last = p.limits.Pause, time.Now()
	event := "queue is consumed"
	if p.paused {
		event = "queue is paused: nothing is taken off it"
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, event, p.limits.attrs()...)
}

// stop ends the log: no line comes any more.
func (p *pauseLog) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later != nil {
		p.later.Stop()
		p.later = nil
	}
}
