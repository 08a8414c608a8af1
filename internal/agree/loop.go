package agree

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	deafFor     = 30 * time.Second // between two attempts to listen: each can be a request, and a right may be missing
	leastListen = time.Second      // for an attempt to listen, also if a step is due before
	mostListen  = 10 * time.Second
)

// Never is the pause of a [Step] that waits for a ring or a wake alone.
const Never = 1000 * time.Hour

// A Step is called by a [Loop]. It looks, decides and writes. It says after which time it is to be called again, or
// that the loop is over. rung reports that there is a reason beside the time that has passed: a ring, a wake, or the
// loop has begun to listen.
type Step func(ctx context.Context, rung bool) (again time.Duration, over bool)

// A Loop calls a step again and again. Run is called once at a time; the other methods may be called concurrently.
type Loop struct {
	store   *storage.Store
	topic   string
	heeds   func(data []byte) bool
	trouble *Trouble
	what    string
	woken   chan struct{} // capacity 1

	// These fields belong to Run.
	hearing *storage.Registration // nil while nothing is heard
	retry   time.Time             // when to try again to listen
}

// NewLoop returns a loop that listens on a topic where the store rings. heeds tells which rings of the topic concern
// the loop; nil is all. It may be called concurrently, and returns at once. A failure to listen is noted as one to
// "be told of" what.
func NewLoop(store *storage.Store, topic string, heeds func(data []byte) bool, trouble *Trouble, what string) *Loop {
	return &Loop{store: store, topic: topic, heeds: heeds, trouble: trouble, what: what, woken: make(chan struct{}, 1)}
}

// Run calls a step at once, and then whenever there is a reason, until the step says that the loop is over, or ctx
// ends. It begins to listen after the first step, so a loop that is over by then has listened to nothing.
func (l *Loop) Run(ctx context.Context, step Step) {
	defer l.close()
	for rung := false; ctx.Err() == nil; {
		again, over := step(ctx, rung)
		if over {
			return
		}
		due := time.Now().Add(again)
		rung = l.listen(ctx, due) || l.wait(ctx, due)
	}
}

// Wake gives the loop a reason to call its step. While the step runs, it is called again after that.
func (l *Loop) Wake() { l.wake() }

func (l *Loop) wake() bool {
	select {
	case l.woken <- struct{}{}:
		return true
	default: // there is a reason that the step has not taken yet
		return false
	}
}

// hear is the loop's ear. It takes one ring until the step is called. A ring for all counts as taken also then: the
// coming step sees what that ring is about.
func (l *Loop) hear(data []byte, most int) int {
	switch {
	case l.heeds != nil && !l.heeds(data):
		return 0
	case most == 0:
		return cap(l.woken) - len(l.woken)
	case l.wake(), most > 1:
		return 1
	}
	return 0
}

// listen begins to listen, and reports that it has begun just now. It gives up when the next step is due.
func (l *Loop) listen(ctx context.Context, due time.Time) bool {
	if l.hearing != nil || !l.store.Rings() || time.Now().Before(l.retry) {
		return false
	}
	limited, cancel := storecall.Limit(ctx, min(mostListen, max(leastListen, time.Until(due))))
	defer cancel()
	h, err := l.store.Subscribe(limited, l.topic, l.hear)
	l.trouble.Note(ctx, "be told of "+l.what, err)
	if err != nil {
		l.retry = time.Now().Add(deafFor)
		return false
	}
	l.hearing = h
	return true
}

// wait waits until a step is due, or until there is another reason for it, which it reports. A hearing that is lost is
// replaced after the next step, not at once, so that a connection that is lost again and again costs little.
func (l *Loop) wait(ctx context.Context, due time.Time) (rung bool) {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		var lost <-chan struct{}
		if l.hearing != nil {
			lost = l.hearing.Lost()
		}
		select {
		case <-timer.C:
			return false
		case <-l.woken:
			return true
		case <-ctx.Done():
			return false
		case <-lost:
			l.close()
		}
	}
}

func (l *Loop) close() {
	if l.hearing != nil {
		l.hearing.Close()
		l.hearing = nil
	}
}

const ringTime = 5 * time.Second

// Ring lets all loops that listen on a topic look, even if ctx has ended. Where the store doesn't ring, they see a
// change with their next look.
func Ring(ctx context.Context, store *storage.Store, topic string, data []byte) error {
	if !store.Rings() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ringTime)
	defer cancel()
	_, err := store.Publish(ctx, topic, data, false)
	return err
}

// A Trouble logs what goes wrong where no caller is told: the first failure of each thing, and the first success after
// that. Its methods belong to one goroutine.
type Trouble struct {
	log   *slog.Logger
	since map[string]time.Time // of what fails
}

// NewTrouble returns a Trouble that logs to log.
func NewTrouble(log *slog.Logger) *Trouble { return &Trouble{log: log, since: map[string]time.Time{}} }

// Note notes how something went that this process tries again and again, such as "read the pauses". An error after
// the end of ctx is none. A failure that another try can't mend is logged as an error, and another one as a warning.
func (t *Trouble) Note(ctx context.Context, what string, err error) {
	_, failing := t.since[what]
	switch {
	case ctx.Err() != nil, (err != nil) == failing:
	case err != nil:
		t.since[what] = time.Now()
		level := slog.LevelWarn
		if storecall.Permanent(err) {
			level = slog.LevelError
		}
		t.log.LogAttrs(ctx, level, "can't "+what+"; trying again", slog.Any("error", err))
	default:
		delete(t.since, what)
		t.log.LogAttrs(ctx, slog.LevelInfo, "can "+what+" again")
	}
}

// Since returns for how long something has failed; 0 if it doesn't.
func (t *Trouble) Since(what string) time.Duration {
	if since, failing := t.since[what]; failing {
		return time.Since(since)
	}
	return 0
}
