package acts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/ops/act"
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
func noteHalts(ctx context.Context, c *act.Call, entries []entry) {
	of := map[string]map[string]*halt{} // by queue and message
	for i := range entries {
		e := &entries[i]
		if of[e.Queue] == nil {
			of[e.Queue] = haltsOf(ctx, c, e.Queue)
		}
		e.halts = of[e.Queue][e.ID]
	}
}

// haltsOf returns the halts of a queue, by message.
func haltsOf(ctx context.Context, c *act.Call, queue string) map[string]*halt {
	found := map[string]*halt{}
	if !c.Known.MayTakeTurns(queue) {
		return found
	}
	for x, err := range keylock.List(ctx, c.Store, queue, "") {
		if err != nil && x.Key == "" {
			c.Note("whether keys stay halted is unknown: %v. %s turns list %s tells it.", err, c.Command, act.ShellWord(queue))
			break
		}
		if h := x.State.Halted; err == nil && h != nil {
			found[h.Message] = &halt{queue: queue, key: x.Key, message: h.Message, ordered: h.Sequence > 0}
		}
	}
	return found
}

// tellHalts says which keys stay halted, each in the words of say.
func tellHalts(c *act.Call, halts []halt, say func(*act.Call, halt) string) {
	slices.SortFunc(halts, func(a, b halt) int { return strings.Compare(a.queue+"/"+a.key, b.queue+"/"+b.key) })
	halts = slices.Compact(halts) // a message may have had several entries
	for _, h := range halts[:min(len(halts), act.MostFaults)] {
		c.Note("%s", say(c, h))
	}
	if n := len(halts) - act.MostFaults; n > 0 {
		c.Note("so it is with %s more. %s turns list QUEUE lists them.", act.Count(n, "key"), c.Command)
	}
}

// untilDone tells of a key that goes on when a message is done.
func (h halt) untilDone(c *act.Call, message string) string {
	return fmt.Sprintf("key %s of queue %s stays halted until message %s is done. %s lets the others of the key go on before.", storage.Quote(h.key), h.queue, message, h.release(c))
}

// untilReleased tells of a key that goes on when somebody releases it.
func (h halt) untilReleased(c *act.Call, waits string) string {
	return fmt.Sprintf("key %s of queue %s stays halted, and %s. %s lets them go on.", storage.Quote(h.key), h.queue, waits, h.release(c))
}

func (h halt) release(c *act.Call) string {
	return fmt.Sprintf("%s turns release %s %s --why TEXT", c.Command, act.ShellWord(h.queue), act.ShellWord(h.key))
}
