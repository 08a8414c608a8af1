package poisoned

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A Halt is a key that a message of the poison queue has halted. It stays halted when that message is discarded.
type Halt struct {
	Queue, Key string
	Message    string
	Ordered    bool // another message with the sequence number of that one ends the halt, too
}

// NoteHalts notes which entries have halted their keys. Where that can't be read it says so, and keeps nobody from
// settling the entries.
func NoteHalts(ctx context.Context, c *act.Call, entries []Entry) {
	of := map[string]map[string]*Halt{} // by queue and message
	for i := range entries {
		e := &entries[i]
		if of[e.Queue] == nil {
			of[e.Queue] = HaltsOf(ctx, c, e.Queue)
		}
		e.Halt = of[e.Queue][e.ID]
	}
}

// HaltsOf returns the halts of a queue, by message.
func HaltsOf(ctx context.Context, c *act.Call, queue string) map[string]*Halt {
	found := map[string]*Halt{}
	if !c.Known.MayTakeTurns(queue) {
		return found
	}
	for x, err := range keylock.List(ctx, c.Store, queue, "") {
		if err != nil && x.Key == "" {
			c.Note("whether keys stay halted is unknown: %v. %s turns list %s tells it.", err, c.Command, act.ShellWord(queue))
			break
		}
		if h := x.State.Halted; err == nil && h != nil {
			found[h.Message] = &Halt{Queue: queue, Key: x.Key, Message: h.Message, Ordered: h.Sequence > 0}
		}
	}
	return found
}

// TellHalts says which keys stay halted, each in the words of say.
func TellHalts(c *act.Call, halts []Halt, say func(command string, h Halt) string) {
	slices.SortFunc(halts, func(a, b Halt) int { return strings.Compare(a.Queue+"/"+a.Key, b.Queue+"/"+b.Key) })
	halts = slices.Compact(halts) // a message may have had several entries
	for _, h := range halts[:min(len(halts), act.MostFaults)] {
		c.Note("%s", say(c.Command, h))
	}
	if n := len(halts) - act.MostFaults; n > 0 {
		c.Note("so it is with %s more. %s turns list QUEUE lists them.", act.Count(n, "key"), c.Command)
	}
}

// UntilDone tells of a key that goes on when a message is done.
func (h Halt) UntilDone(command, message string) string {
	return fmt.Sprintf("key %s of queue %s stays halted until message %s is done. %s lets the others of the key go on before.", storage.Quote(h.Key), h.Queue, message, h.release(command))
}

// UntilReleased tells of a key that goes on when somebody releases it.
func (h Halt) UntilReleased(command, waits string) string {
	return fmt.Sprintf("key %s of queue %s stays halted, and %s. %s lets them go on.", storage.Quote(h.Key), h.Queue, waits, h.release(command))
}

func (h Halt) release(command string) string {
	return fmt.Sprintf("%s turns release %s %s --why TEXT", command, act.ShellWord(h.Queue), act.ShellWord(h.Key))
}
