package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	limits "github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/settings"
)

// needsRestart is a program that runs the version in force but for some settings, which wait for its restart.
type needsRestart struct {
	Name    string   `json:"name"`
	Waiting []string `json:"waiting"` // these settings
}

// restartsOf returns the programs that need a restart, and how many don't run the version in force at all.
func restartsOf(version int64, nodes []settings.Node) (need []needsRestart, others int) {
	need = []needsRestart{}
	for _, n := range nodes {
		if n.Version != version {
			others++
		} else if len(n.Waiting) > 0 {
			need = append(need, needsRestart{n.Name, n.Waiting})
		}
	}
	return need, others
}

// mostNamed is how many programs a sentence names.
const mostNamed = 10

// restartText tells people which programs need a restart, and for what.
func restartText(need []needsRestart) string {
	var all []string
	for _, n := range need[:min(len(need), mostNamed)] {
		all = append(all, fmt.Sprintf("%s (%s)", n.Name, strings.Join(n.Waiting, ", ")))
	}
	if more := len(need) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

const (
	firstLook = 20 * time.Millisecond // until programs are looked at again that don't run a version yet; then twice as long
	lastLook  = time.Second
)

// incomplete tells what a version that is in force lacks: the programs that need a restart for some of it, and those
// that don't run it yet. Most run it at once, where the store rings.
func (c settingsCall) incomplete(ctx context.Context, version int64) (need []needsRestart, text string) {
	others := 0
	for wait := firstLook; ; wait *= 2 {
		nodes, err := c.ledger.Nodes(ctx)
		if err != nil {
			return nil, "" // the change is made, and status tells the rest
		}
		need, others = restartsOf(version, nodes)
		if others == 0 || wait > lastLook || limits.Sleep(ctx, wait) != nil {
			break
		}
	}
	if len(need) > 0 {
		text = fmt.Sprintf(" Not all of it holds yet: %s. Nothing restarts programs by itself.", needText(need))
	}
	if others > 0 {
		text += fmt.Sprintf(" Programs that don't run it yet: %d; %s settings status -of %s shows which.", others, c.Command, c.name)
	}
	return need, text
}

// needText is the sentence about programs that need a restart.
func needText(need []needsRestart) string {
	if len(need) == 1 {
		return restartText(need) + " needs a restart"
	}
	return restartText(need) + " need a restart"
}

// restartFindings are about settings that are in force and don't hold.
func restartFindings(name string, now settings.Current, nodes []settings.Node) []finding {
	need, _ := restartsOf(now.Version, nodes)
	if len(need) == 0 {
		return nil
	}
	slices.SortFunc(need, func(a, b needsRestart) int { return strings.Compare(a.Name, b.Name) })
	return []finding{{Severity: wrong, Check: "settings", Text: fmt.Sprintf("version %d of settings %s is in force, and not all of it holds: %s", now.Version, name, needText(need)),
		Fix: "Restart one at a time. Nothing restarts programs by itself."}}
}
