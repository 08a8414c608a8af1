package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/call"
	"github.com/millrace-go/millrace/storage"
)

const (
	// topic is where changes are told to watchers, with the leader's name as data. Releases are told on another topic,
	// to one candidate each, and watchers must not take them.
	topic = "leaders"

	// tellLimit is how long watchers may take to hear of a change.
	tellLimit = 2 * time.Second
)

// A Leader is what a store knows of the leader of a name.
type Leader struct {
	Name string

	// Holder is the leader's Config.Holder, or empty while nobody leads. A leader that has died counts as leading until
	// another follows.
	Holder string

	// Term numbers the present term, or while nobody leads the last one. It is 0 before the first.
	Term int64

	// Since is when the present or last term began, by the clock of its leader. It is for people.
	Since time.Time

	// Candidates are those that have waited for more than a poll. Only [List] sets them.
	Candidates []lease.Waiter
}

// Current reads the leader of a name. It makes one request. The answer may be out of date when it comes: it is good
// for people, and for finding the leader. It doesn't prove that a process leads; the context of its function does.
func Current(ctx context.Context, store *storage.Store, name string) (Leader, error) {
	err := checkName(name)
	var info lease.Info
	if err == nil {
		info, err = lease.State(ctx, store, prefix+name)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return Leader{Name: name}, nil
	case err != nil:
		return Leader{}, fmt.Errorf("leader: read %s: %w", storage.Quote(name), err)
	}
	return leaderOf(info), nil
}

// List yields the leaders of all names with their candidates, in the order of the names. A blob that is no lease is
// yielded as its name with an error, and the list goes on; any other error is the last. See [lease.List] for the cost.
func List(ctx context.Context, store *storage.Store) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		for info, err := range lease.List(ctx, store, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			who := leaderOf(info)
			if err != nil {
				who, err = Leader{Name: who.Name}, fmt.Errorf("leader: list: %w", err)
			}
			if !yield(who, err) {
				return
			}
		}
	}
}

func leaderOf(x lease.Info) Leader {
	who := Leader{Name: strings.TrimPrefix(x.Name, prefix), Term: x.Fence, Since: x.Since, Candidates: x.Waiters}
	if x.Held {
		who.Holder = x.Holder
	}
	return who
}

// WatchConfig is how [Watch] looks for changes. The zero WatchConfig is right for most callers.
type WatchConfig struct {
	// Every is the mean time between two reads. Where the store rings, a change is seen at once, and a read finds what a
	// ring missed. At least 100 milliseconds, at most an hour. Defaults to 2.5 seconds.
	Every time.Duration
}

// Watch yields the present leader of a name at once, and then each change of it: another term, or nobody leads. A loop
// that takes long gets the newest state, and misses those between. When a read fails, Watch yields the error and goes
// on; it yields no other error until a read has succeeded. When ctx ends, Watch yields its cause and ends.
func Watch(ctx context.Context, store *storage.Store, name string, cfg WatchConfig) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		every := or(cfg.Every, 2500*time.Millisecond)
		err := errors.Join(call.CheckStore(store), checkName(name))
		if every < 100*time.Millisecond || every > time.Hour {
			err = errors.Join(err, fmt.Errorf("%w: Every is %v; want 100ms to 1h", storage.ErrInvalid, cfg.Every))
		}
		if err == nil {
			e := ear{store: store, name: name, told: make(chan struct{}, 1)}
			defer e.close()
			if err = e.watch(ctx, every, yield); err == nil {
				return
			}
		}
		yield(Leader{}, watchError(name, err))
	}
}

func watchError(name string, err error) error {
	return fmt.Errorf("leader: watch %s: %w", storage.Quote(name), err)
}

// An ear hears of changes of one name, where the store rings.
type ear struct {
	store   *storage.Store
	name    string
	told    chan struct{} // of capacity 1
	hearing *storage.Hearing
}

// watch yields changes until ctx ends; then it returns the cause. It returns nil when the loop has ended.
func (e *ear) watch(ctx context.Context, every time.Duration, yield func(Leader, error) bool) error {
	last, failing := Leader{Term: -1}, false
	for {
		e.open(ctx, every) // before the read: what is told meanwhile is not missed
		who, err := Current(ctx, e.store, e.name)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !failing:
			if !yield(Leader{}, watchError(e.name, err)) {
				return nil
			}
		case err == nil && (who.Term != last.Term || who.Holder != last.Holder):
			if last = who; !yield(who, nil) {
				return nil
			}
		}
		failing = err != nil
		if err := e.wait(ctx, every*3/4+rand.N(every/2)); err != nil {
			return err
		}
	}
}

// open begins to hear, unless it does already. A failure is none of the watcher's: it reads now and then anyway.
func (e *ear) open(ctx context.Context, limit time.Duration) {
	if e.hearing != nil || !e.store.Rings() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	h, err := e.store.Hear(ctx, topic, func(data []byte, most int) int {
		if string(data) != e.name {
			return 0
		}
		if most > 0 {
			select {
			case e.told <- struct{}{}:
			default: // the coming read sees this change too
			}
		}
		return 1
	})
	if err == nil {
		e.hearing = h
	}
}

func (e *ear) close() {
	if e.hearing != nil {
		e.hearing.Close()
		e.hearing = nil
	}
}

// wait waits for a change, or as long as it may.
func (e *ear) wait(ctx context.Context, d time.Duration) error {
	var lost <-chan struct{}
	if e.hearing != nil {
		lost = e.hearing.Lost()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
			return nil
		case <-e.told:
			return nil
		case <-lost:
			lost = nil
			e.close() // the next round opens it again, so that a store that loses it at once is asked no more often
		}
	}
}

// tell tells watchers that there is news. It keeps nobody waiting but the end of Run.
func (c *candidate) tell(ctx context.Context) {
	if !c.store.Rings() {
		return
	}
	c.telling.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellLimit)
		defer cancel()
		if _, err := c.store.Tell(ctx, topic, []byte(c.name), false); err != nil {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "can't tell watchers; they see the change when they read next", slog.Any("error", err))
		}
	})
}
