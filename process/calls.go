package process

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

const (
	goesOnFor = 30 * time.Second // after which a begin comes again whose agent is at work here
	silentFor = 5 * time.Second  // that a call outlives its context before its instance is told
	wordTime  = 10 * time.Second // to send a word
	wordFirst = time.Second      // to the second try
	wordMost  = time.Minute      // between two tries
	wordTries = 24 * time.Hour   // then the store may have been closed for good
	maxWords  = 4096             // words that a process remembers
	maxBytes  = 8 << 20          // of all of them
)

// calls are an agents' host's memory of its calls. A worker may give a call up, lose its message, or fail to send its
// word: the message comes again then, while the call goes on, or after it has ended.
type calls struct {
	words *lru.Cache[flow.Done] // what calls came to, by the IDs of their messages

	mu     sync.Mutex
	goesOn map[string]bool // by key
}

func newCalls() *calls {
	return &calls{words: lru.New[flow.Done](maxWords, maxBytes), goesOn: map[string]bool{}}
}

// begin notes that a call begins, unless one of the same key goes on.
func (c *calls) begin(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goesOn[key] {
		return false
	}
	c.goesOn[key] = true
	return true
}

func (c *calls) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.goesOn, key)
}

// keep keeps the word of a message's call. The message may come again, because the word could not be sent with its end.
func (c *calls) keep(id string, m flow.Done) {
	c.words.Add(id, m, len(id)+len(m.Result)+len(m.Error)+len(m.Echo)+256)
}

// teller sends the words of calls for which nobody may wait any more.
type teller struct {
	plan     string
	registry *handling.Registry
}

// say sends the word of a call, under the context that the call had. While the store is away, it goes on trying, also
// when it has returned.
func (t teller) say(ctx context.Context, m flow.Done) error {
	handling, ok := wire.HandlingUnder(ctx)
	if !ok {
		return errors.New("process: an agent outside of a handler's context")
	}
	e, err := wire.ComposeUnder(handling, m, t.registry.Channels.Outbox().Source, time.Now())
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	err = t.send(ctx, e)
	if err != nil && !unsendable(err) {
		t.sayAgain(ctx, e, wordFirst, time.Now().Add(wordTries))
	}
	return err
}

// silent tells the instance if a call outlives its context. So the instance is kept while the call may succeed. The
// call's end stops it.
func (t teller) silent(ctx context.Context, b flow.Begin) (stop func()) {
	if b.Undo > 0 || b.List { // the instance is kept as long as it undoes, and a list has no effect
		return func() {}
	}
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		select {
		case <-ended:
		case <-time.After(silentFor):
			_ = t.say(ctx, flow.SilentOf(b))
		}
	})
	return func() { close(ended); unwatch() }
}

func (t teller) sayAgain(ctx context.Context, e channel.Envelope, wait time.Duration, end time.Time) {
	time.AfterFunc(wait, func() {
		switch err := t.send(ctx, e); {
		case err == nil:
		case unsendable(err) || !time.Now().Before(end):
			t.registry.Logger.LogAttrs(ctx, slog.LevelError, "the word of an agent can't be sent, and is lost here", slog.String("plan", t.plan),
				slog.String("instance", e.Subject), slog.Any("error", err))
		default:
			t.sayAgain(ctx, e, min(2*wait, wordMost), end)
		}
	})
}

// unsendable reports that another try can't succeed.
func unsendable(err error) bool {
	return errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge)
}

func (t teller) send(ctx context.Context, e channel.Envelope) error {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	outbox := t.registry.Channels.Outbox()
	packed, err := outbox.Pack(ctx, e)
	if err != nil {
		return err
	}
	return outbox.SendPacked(ctx, packed)
}
