package acts

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// A QueueLevel is a queue that its workers leave out at the level of their program.
type QueueLevel struct {
	Queue     string   `json:"queue"`
	WaitsFrom int      `json:"waits_from"` // the level from which they do
	Programs  []string `json:"programs"`   // that consume it
}

func levelActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "levels", Verb: "list", Role: act.Viewer, About: "list the queues that wait because of the level of their program",
		More: "It is what workers have published in the last minutes. A program's level is among its settings (settings show), and follows long queues where " +
			"the program says so. settings set level=0 lets all queues be consumed.",
	}, nil, listLevels)}
}

func listLevels(ctx context.Context, c *act.Call, _ *act.None) error {
	waits, err := look.Levels(ctx, c.Desk)
	if err != nil {
		return err
	}
	if err := c.Table("No queue waits because of a level.", "QUEUE", "WAITS FROM LEVEL", "CONSUMED BY"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		line := QueueLevel{Queue: name, WaitsFrom: waits[name], Programs: []string{}}
		for _, d := range c.Known.Consumers(name) {
			line.Programs = append(line.Programs, strings.TrimSpace(d.Name+" "+d.Version))
		}
		if waits[name] == 0 {
			continue
		}
		link := act.Link{Text: name, Act: "queues show", With: map[string]string{"queue": name}}
		if err := c.Row(line, link, line.WaitsFrom, strings.Join(line.Programs, ", ")); err != nil {
			return err
		}
	}
	return nil
}
