package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// A halt is a key that a message of the poison queue has halted. It stays halted when that message is discarded.
type halt struct {
	queue, key string
	message    string
	ordered    bool // another message with the sequence number of that one ends the halt, too
}

// noteHalts notes which entries have halted their keys. Where that can't be read it says so, and keeps nobody from
// settling the entries.
func (c poisonCall) noteHalts(ctx context.Context, entries []entry) {
	of := map[string]map[string]*halt{} // by queue and message
	for i := range entries {
		e := &entries[i]
		if of[e.Queue] == nil {
			of[e.Queue] = c.haltsOf(ctx, e.Queue)
		}
		e.halts = of[e.Queue][e.ID]
	}
}

// haltsOf returns the halts of a queue, by message.
func (c poisonCall) haltsOf(ctx context.Context, queue string) map[string]*halt {
	found := map[string]*halt{}
	if !c.known.mayTakeTurns(queue) {
		return found
	}
	for x, err := range keylock.List(ctx, c.store, queue, "") {
		if err != nil && x.Key == "" {
			_, _ = fmt.Fprintf(c.progress, "Note: whether keys stay halted is unknown: %s. %s turns list %s tells it.\n", boot.Clean(err.Error()), c.Command, boot.ShellWord(queue))
			break
		}
		if h := x.State.Halted; err == nil && h != nil {
			found[h.Message] = &halt{queue: queue, key: x.Key, message: h.Message, ordered: h.Sequence > 0}
		}
	}
	return found
}

// haltWatch collects the halts of entries that were settled.
type haltWatch struct {
	mu   sync.Mutex
	left []halt
}

// after returns act, and collects after it.
func (w *haltWatch) after(act func(context.Context, entry) error) func(context.Context, entry) error {
	return func(ctx context.Context, e entry) error {
		err := act(ctx, e)
		if e.halts != nil && (err == nil || errors.Is(err, poison.ErrBodyLeft)) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.left = append(w.left, *e.halts)
		}
		return err
	}
}

// tell says which keys stay halted, each in the words of say.
func (w *haltWatch) tell(c poisonCall, say func(halt) string) {
	slices.SortFunc(w.left, func(a, b halt) int { return strings.Compare(a.queue+"/"+a.key, b.queue+"/"+b.key) })
	left := slices.Compact(w.left) // a message may have had several entries
	for _, h := range left[:min(len(left), mostFaults)] {
		_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(say(h)))
	}
	if n := len(left) - mostFaults; n > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: so it is with %s more. %s turns list QUEUE lists them.\n", count(n, "key"), c.Command)
	}
}

// untilDone tells of a key that goes on when a message is done.
func (c poisonCall) untilDone(h halt, message string) string {
	return fmt.Sprintf("key %s of queue %s stays halted until message %s is done. %s lets the others of the key go on before.", storage.Quote(h.key), h.queue, message, c.release(h))
}

// untilReleased tells of a key that goes on when somebody releases it.
func (c poisonCall) untilReleased(h halt, waits string) string {
	return fmt.Sprintf("key %s of queue %s stays halted, and %s. %s lets them go on.", storage.Quote(h.key), h.queue, waits, c.release(h))
}

func (c poisonCall) release(h halt) string {
	return fmt.Sprintf("%s turns release %s %s -why TEXT", c.Command, boot.ShellWord(h.queue), boot.ShellWord(h.key))
}
