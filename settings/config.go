package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	minPoll = time.Second
	maxPoll = 10 * time.Minute

	maxPatience = time.Minute
)

// Config is how a node uses settings. The zero Config is right for most callers.
type Config struct {
	// Name tells an operator which process the node is. Where several have one name, their IDs tell them apart. At most
	// 100 bytes. Defaults to the host and the process ID.
	Name string

	// Cache is the file in which the node keeps what it has applied, so that it can start while the store doesn't
	// answer, also if that is the defaults. Its folder must exist. Each process has a file of its own. Defaults to none.
	Cache string

	// Offline lets the node start with the defaults when neither the store nor the cache answers. Defaults to false: then
	// Open returns an error.
	Offline bool

	// Poll is the longest time between two looks at the store, while nothing rings. Chance makes it shorter by up to a
	// fifth. A node that has not looked for three times that long counts as dead. At least 1 second, at most 10
	// minutes, in whole milliseconds. Defaults to 30 seconds.
	Poll time.Duration

	// Patience bounds the node's own code for one version: Check, and all functions given to Changing. A version that is
	// not through by then gets a no. At most 1 minute. Defaults to 5 seconds.
	Patience time.Duration

	// Stages are those in which a change comes into force, after every live node has said yes. Nodes that differ in them
	// are told of by [Ledger.Set]. The last share is 100 percent. Defaults to none: everywhere at once.
	Stages []Stage

	// Health tells whether this node is well, before it runs a change that is rolled out, and at each look while it does.
	// An error rolls the change back for all, and so do a panic, and a call that doesn't return within Patience; its ctx
	// ends then. Where the node wasn't well before the change, that counts only after it has been well with it, and
	// until then Work does. Defaults to none: then only Work and the death of a node tell.
	Health func(ctx context.Context) error

	// Work returns what this process has done since it started. During a roll-out the nodes that run the change are
	// compared with the others, and with themselves before. It must return soon. Defaults to none.
	Work func() Work

	// Metrics gets the metrics of this node, with the label settings: its name. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures that no caller is told of: the store can't be reached, a version can't be applied, a function
	// given to Changed panics. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = storecall.ProcessName()
	}
	if c.Poll == 0 {
		c.Poll = 30 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	faults := []error{checkText("Name", c.Name, maxBy), checkStages(c.Stages)}
	c.Stages = slices.Clone(c.Stages)
	if c.Poll < minPoll || c.Poll > maxPoll || c.Poll%time.Millisecond != 0 {
		faults = append(faults, fmt.Errorf("%w: Poll is %v; want %v to %v, in whole milliseconds", storage.ErrInvalid, c.Poll, minPoll, maxPoll))
	}
	if info, err := os.Stat(filepath.Dir(c.Cache)); c.Cache != "" && (err != nil || !info.IsDir()) {
		faults = append(faults, fmt.Errorf("%w: the folder of Cache, %s, is not there: make it", storage.ErrInvalid, storage.Quote(filepath.Dir(c.Cache))))
	}
	if c.Patience < 0 || c.Patience > maxPatience {
		faults = append(faults, fmt.Errorf("%w: Patience is %v; want at most 1m", storage.ErrInvalid, c.Patience))
	}
	return c, errors.Join(faults...)
}
