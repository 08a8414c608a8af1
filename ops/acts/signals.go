package acts

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A SignalSent is a signal that was sent.
type SignalSent struct {
	Name  string `json:"name"`
	Taken int    `json:"taken"` // by how many listeners
}

// A signalInput is what sending a signal takes.
type signalInput struct {
	name, data string
	one        bool
}

func signalActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "signals", Verb: "send", Role: act.Operator, Once: true, Why: act.May, About: "send a signal to the programs that wait for it now",
			More: "A signal is heard once at most, and isn't stored. If no program waits for it, the exit code is 3.",
		}, func(in *signalInput) []act.Field {
			return []act.Field{
				act.Text(&in.name, "name", "the signal").At("NAME"),
				act.Text(&in.data, "data", fmt.Sprintf("a `TEXT` for the programs, at most %d bytes", signal.MaxData)).Hidden(),
				act.Flag(&in.one, "one", "send it to one of them, chosen at random"),
			}
		}, sendSignal),
	}
}

func sendSignal(ctx context.Context, c *act.Call, in *signalInput) (err error) {
	line := SignalSent{Name: in.name}
	if in.one {
		var taken bool
		if taken, err = signal.One(ctx, c.Store, in.name, []byte(in.data)); taken {
			line.Taken = 1
		}
	} else {
		line.Taken, err = signal.Broadcast(ctx, c.Store, in.name, []byte(in.data))
	}
	switch {
	case err != nil && line.Taken > 0:
		return fmt.Errorf("taken by %s; %w", act.Count(line.Taken, "listener"), err)
	case err != nil:
		return err
	case line.Taken == 0:
		return act.Nothing("no program waits for %s", storage.Quote(in.name))
	}
	return c.Say(line, "Signal %s was taken by %s.", strings.Trim(storage.Quote(in.name), `"`), act.Count(line.Taken, "listener"))
}
