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
	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
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

// watchEvery is the mean time between two reads of a watcher.
const watchEvery = 2500 * time.Millisecond

// Watch yields the present leader of a name at once, and then each change of it: another term, or nobody leads. Where
// the store rings, a change is seen at once. Watch also reads every 2.5 seconds on average, and finds what a ring
// missed. A loop that takes long gets the newest state, and misses those between. When a read fails, Watch yields the
// error and goes on; it yields no other error until a read has succeeded. When ctx ends, Watch yields its cause and
// ends.
func Watch(ctx context.Context, store *storage.Store, name string) iter.Seq2[Leader, error] {
	return watch(ctx, store, name, watchEvery)
}

func watch(ctx context.Context, store *storage.Store, name string, every time.Duration) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := errors.Join(storecall.CheckStore(store), checkName(name)); err != nil {
			yield(Leader{}, watchError(name, err))
			return
		}
		last, failing, over := Leader{Term: -1}, false, false
		rings := agree.NewLoop(store, topic, func(data []byte) bool { return string(data) == name }, agree.NewTrouble(slog.New(slog.DiscardHandler)), "changes of a leader")
		rings.Run(ctx, func(ctx context.Context, _ bool) (time.Duration, bool) {
			who, err := Current(ctx, store, name)
			switch {
			case ctx.Err() != nil:
			case err != nil && !failing:
				over = !yield(Leader{}, watchError(name, err))
			case err == nil && (who.Term != last.Term || who.Holder != last.Holder):
				last = who
				over = !yield(who, nil)
			}
			failing = err != nil
			return every*3/4 + rand.N(every/2), over
		})
		if !over {
			yield(Leader{}, watchError(name, context.Cause(ctx)))
		}
	}
}

func watchError(name string, err error) error {
	return fmt.Errorf("leader: watch %s: %w", storage.Quote(name), err)
}

// tell tells watchers that there is news. It keeps nobody waiting but the end of Run.
func (c *candidate) tell(ctx context.Context) {
	if !c.store.Rings() {
		return
	}
	c.telling.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellLimit)
		defer cancel()
		if _, err := c.store.Publish(ctx, topic, []byte(c.name), false); err != nil {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "can't tell watchers; they see the change when they read next", slog.Any("error", err))
		}
	})
}
