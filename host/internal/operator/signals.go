package operator

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// signalLine is what -json prints of a signal that was sent.
type signalLine struct {
	Name  string `json:"name"`
	Taken int    `json:"taken"` // by how many listeners
}

func signalVerbs() []*verb {
	return []*verb{
		{name: "signals send", args: "NAME", least: 1, most: 1, about: "send a signal to the programs that wait for it now", store: true, run: signalsSend,
			flags: func(set *flag.FlagSet, o *options) {
				set.StringVar(&o.data, "data", "", fmt.Sprintf("a `TEXT` for the programs, at most %d bytes", signal.MaxData))
				set.BoolVar(&o.one, "one", false, "send it to one of them, chosen at random")
			},
			more: "A signal is heard once at most, and isn't stored. If no program waits for it, the exit code is 3."},
	}
}

// signalsSend sends a signal.
func signalsSend(ctx context.Context, c *call) error {
	line := signalLine{Name: c.args[0]}
	var err error
	if c.one {
		var taken bool
		if taken, err = signal.One(ctx, c.store, line.Name, []byte(c.data)); taken {
			line.Taken = 1
		}
	} else {
		line.Taken, err = signal.Broadcast(ctx, c.store, line.Name, []byte(c.data))
	}
	switch {
	case err != nil && line.Taken > 0:
		return fmt.Errorf("taken by %s; %w", count(line.Taken, "listener"), err)
	case err != nil:
		return err
	case line.Taken == 0:
		return nothing("signals send: no program waits for %s", storage.Quote(line.Name))
	case c.json:
		return c.out.line(line)
	}
	c.out.printf("%s\n", boot.Clean(fmt.Sprintf("Signal %s was taken by %s.", strings.Trim(storage.Quote(line.Name), `"`), count(line.Taken, "listener"))))
	return nil
}
