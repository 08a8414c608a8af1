package signal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// room is how many signals a listener keeps at most until they are asked for.
const room = 64

var (
	// ErrLost is in the error of a listener that has lost its connection: signals may have been missed. It takes no
	// more. Close it and listen again.
	ErrLost = errors.New("connection lost")

	// ErrClosed is in the error of a listener that was closed.
	ErrClosed = errors.New("listener closed")
)

// A Signal is what a listener took.
type Signal struct {
	Name string
	Data []byte
}

// A Listener takes the signals that fit its patterns, from [Listen] to [Listener.Close], and keeps them until they are
// asked for. Its methods may be called concurrently; each signal is returned once.
//
// It keeps 64 signals. While it is full it takes no more, and the sender's count shows that.
type Listener struct {
	patterns []string
	room     int
	once     bool // the first call that succeeds ends the listening
	hearing  *storage.Registration

	mu      sync.Mutex
	kept    []Signal
	alls    int           // calls of All that wait
	ended   error         // why it takes nothing more
	changed chan struct{} // closed at the next change; nil while nobody waits for one
}

// Listen begins to listen for signals whose names fit one of the patterns. It is ready when it returns: a signal that
// is sent afterwards reaches it. The listener lives until it is closed, and not only as long as ctx.
func Listen(ctx context.Context, store *storage.Store, patterns ...string) (*Listener, error) {
	return listen(ctx, store, &Listener{patterns: slices.Clone(patterns), room: room})
}

func listen(ctx context.Context, store *storage.Store, l *Listener) (*Listener, error) {
	err := errors.Join(storecall.CheckStore(store), checkPatterns(l.patterns))
	if err == nil {
		l.hearing, err = store.Subscribe(ctx, topic, l.hear)
	}
	if err != nil {
		return nil, l.fail("listen", err)
	}
	return l, nil
}

// Any waits for the first signal that fits a pattern. Signals that were taken before are returned first, in their
// order. The end of ctx loses none: they stay for the next call. A lost connection is [ErrLost].
func (l *Listener) Any(ctx context.Context) (Signal, error) {
	var s Signal
	err := l.wait(ctx, func() (ok bool) { s, ok = l.first(); return ok })
	return s, err
}

// Try returns a signal that was taken before, and doesn't wait.
func (l *Listener) Try() (Signal, bool, error) {
	var s Signal
	_, ok, err := l.look(func() (ok bool) { s, ok = l.first(); return ok })
	if !ok && err != nil {
		return s, false, l.fail("try", err)
	}
	return s, ok, nil
}

// All waits until there is a signal for each pattern, and returns the first one for each, in the order of the patterns.
// A signal counts for each pattern that it fits. Signals that were taken before count, too. While All waits, the
// listener takes only signals for patterns that have none, even if it is full: others may have the rest. After the end
// of ctx, and after [ErrLost], all signals stay for the next call.
func (l *Listener) All(ctx context.Context) ([]Signal, error) {
	l.mu.Lock()
	l.alls++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.alls--
		l.mu.Unlock()
	}()
	var all []Signal
	err := l.wait(ctx, func() (ok bool) { all, ok = l.oneEach(); return ok })
	return all, err
}

// Close ends the listening. The listener takes nothing more. Signals that it took before can still be had. Closing
// twice is harmless.
func (l *Listener) Close() {
	l.mu.Lock()
	if l.ended == nil {
		l.ended = ErrClosed
	}
	l.change()
	l.mu.Unlock()
	l.hearing.Close()
}

// hear is the ear of the listener. The frame is its own.
func (l *Listener) hear(frame []byte, most int) int {
	name, data, ok := decode(frame)
	if !ok {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wants(name) {
		return 0
	}
	if most > 0 {
		l.kept = append(l.kept, Signal{Name: name, Data: data})
		l.change()
	}
	return 1
}

// wants reports, under the lock, that a signal of that name would be taken now.
func (l *Listener) wants(name string) bool {
	if l.ended != nil || l.alls == 0 && len(l.kept) >= l.room {
		return false
	}
	return slices.ContainsFunc(l.patterns, func(pattern string) bool {
		return matches(pattern, name) && (l.alls == 0 || l.find(pattern) < 0)
	})
}

// find returns, under the lock, where the first signal is that fits a pattern, or -1.
func (l *Listener) find(pattern string) int {
	return slices.IndexFunc(l.kept, func(s Signal) bool { return matches(pattern, s.Name) })
}

// first removes the first signal, under the lock.
func (l *Listener) first() (s Signal, ok bool) {
	if len(l.kept) == 0 {
		return Signal{}, false
	}
	s = l.kept[0]
	l.kept = slices.Delete(l.kept, 0, 1)
	return s, true
}

// oneEach removes a signal for each pattern, under the lock, if there are so many.
func (l *Listener) oneEach() (all []Signal, ok bool) {
	used := make([]bool, len(l.kept))
	for _, p := range l.patterns {
		i := l.find(p)
		if i < 0 {
			return nil, false
		}
		used[i] = true
		all = append(all, l.kept[i])
	}
	var rest []Signal
	for i, s := range l.kept {
		if !used[i] {
			rest = append(rest, s)
		}
	}
	l.kept = rest
	return all, true
}

// change wakes all that wait, under the lock.
func (l *Listener) change() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait looks whenever something has changed, until get succeeds.
func (l *Listener) wait(ctx context.Context, get func() bool) error {
	for {
		if ctx.Err() != nil {
			return l.fail("wait for", context.Cause(ctx))
		}
		changed, ok, err := l.look(get)
		if ok {
			return nil
		}
		if err != nil {
			return l.fail("wait for", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-l.hearing.Lost():
		}
	}
}

// look calls get under the lock. If get fails, look returns why it will go on failing, or when to look again.
func (l *Listener) look(get func() bool) (changed <-chan struct{}, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := get()
	if l.ended == nil {
		l.ended = l.end(got)
	}
	if got || l.ended != nil {
		return nil, got, l.ended
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed, false, nil
}

// end returns why the listener takes nothing more from now on, if there is a reason.
func (l *Listener) end(got bool) error {
	if got && l.once {
		return ErrClosed
	}
	select {
	case <-l.hearing.Lost():
		return ErrLost
	default:
		return nil
	}
}

func (l *Listener) fail(op string, err error) error {
	return fmt.Errorf("signal: %s %s: %w", op, storage.Quote(strings.Join(l.patterns, " ")), err)
}
