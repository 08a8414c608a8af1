package acts

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/settings"
)

// A NeedsRestart is a program that runs the version in force but for some settings, which wait for its restart.
type NeedsRestart struct {
	Name    string   `json:"name"`
	Waiting []string `json:"waiting"` // these settings
}

const (
	firstLook = 20 * time.Millisecond // until programs are looked at again that don't run a version yet; then twice as long
	lastLook  = time.Second
)

// incomplete tells what a version that is in force lacks: the programs that need a restart for some of it, and those
// that don't run it yet. Most run it at once, where the store rings.
func incomplete(ctx context.Context, c *act.Call, in *settingsInput, version int64) (need []NeedsRestart, text string) {
	var nodes []settings.Node
	others := 0
	for wait := firstLook; ctx.Err() == nil; wait *= 2 {
		all, err := in.ledger.Nodes(ctx)
		if err != nil {
			return nil, "" // the change is made, and status tells the rest
		}
		nodes, others = look.Restarts(version, all)
		if others == 0 || wait > lastLook {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	need = []NeedsRestart{}
	for _, n := range nodes {
		need = append(need, NeedsRestart{n.Name, n.Waiting})
	}
	if len(need) > 0 {
		text = fmt.Sprintf(" Not all of it holds yet: %s. Nothing restarts programs by itself.", look.RestartText(nodes))
	}
	if others > 0 {
		text += fmt.Sprintf(" Programs that don't run it yet: %d; %s settings status --of %s shows which.", others, c.Command, in.name)
	}
	return need, text
}
