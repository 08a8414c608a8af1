package acts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
)

// A NeedsRestart is a program that runs the version in force but for some settings, which wait for its restart.
type NeedsRestart struct {
	Name    string   `json:"name"`
	Waiting []string `json:"waiting"` // these settings
}

// restartsOf returns the programs that need a restart, and how many don't run the version in force at all.
func restartsOf(version int64, nodes []settings.Node) (need []NeedsRestart, others int) {
	need = []NeedsRestart{}
	for _, n := range nodes {
		if n.Version != version {
			others++
		} else if len(n.Waiting) > 0 {
			need = append(need, NeedsRestart{n.Name, n.Waiting})
		}
	}
	return need, others
}

// mostNamed is how many programs a sentence names.
const mostNamed = 10

// needText is the sentence about programs that need a restart, and for what.
func needText(need []NeedsRestart) string {
	var all []string
	for _, n := range need[:min(len(need), mostNamed)] {
		all = append(all, fmt.Sprintf("%s (%s)", n.Name, strings.Join(n.Waiting, ", ")))
	}
	if more := len(need) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if len(need) == 1 {
		return all[0] + " needs a restart"
	}
	return strings.Join(all, ", ") + " need a restart"
}

const (
	firstLook = 20 * time.Millisecond // until programs are looked at again that don't run a version yet; then twice as long
	lastLook  = time.Second
)

// incomplete tells what a version that is in force lacks: the programs that need a restart for some of it, and those
// that don't run it yet. Most run it at once, where the store rings.
func incomplete(ctx context.Context, c *act.Call, in *settingsInput, version int64) (need []NeedsRestart, text string) {
	others := 0
	for wait := firstLook; ctx.Err() == nil; wait *= 2 {
		nodes, err := in.ledger.Nodes(ctx)
		if err != nil {
			return nil, "" // the change is made, and status tells the rest
		}
		need, others = restartsOf(version, nodes)
		if others == 0 || wait > lastLook {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	if len(need) > 0 {
		text = fmt.Sprintf(" Not all of it holds yet: %s. Nothing restarts programs by itself.", needText(need))
	}
	if others > 0 {
		text += fmt.Sprintf(" Programs that don't run it yet: %d; %s settings status --of %s shows which.", others, c.Command, in.name)
	}
	return need, text
}

// restartFindings are about settings that are in force and don't hold.
func restartFindings(name string, now settings.Current, nodes []settings.Node) []Finding {
	need, _ := restartsOf(now.Version, nodes)
	if len(need) == 0 {
		return nil
	}
	slices.SortFunc(need, func(a, b NeedsRestart) int { return strings.Compare(a.Name, b.Name) })
	return []Finding{{Severity: Wrong, Check: "settings", Text: fmt.Sprintf("version %d of settings %s is in force, and not all of it holds: %s", now.Version, name, needText(need)),
		Fix: "Restart one at a time. Nothing restarts programs by itself."}}
}
