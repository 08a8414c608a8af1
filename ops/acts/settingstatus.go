package acts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/tuning"
	"github.com/millrace-go/millrace/settings"
)

// A SettingsNode is a program that has settings.
type SettingsNode struct {
	settings.Node
	Canary bool `json:"canary"` // it runs, or will soon run, the change that is being rolled out
}

// veilChanges takes out why programs don't take changes, which may be personal, unless the request reveals.
func veilChanges(c *act.Call, now settings.Current) {
	for _, e := range now.Ended {
		for i := range e.Reasons {
			e.Reasons[i].Why = c.Fault(e.Reasons[i].Why)
		}
	}
}

// veilNode does so for a program.
func veilNode(c *act.Call, n *settings.Node) {
	n.Fault = c.Fault(n.Fault)
	if n.Verdict != nil {
		n.Verdict.Why = c.Fault(n.Verdict.Why)
	}
	if n.Health != nil {
		n.Health.Ill = c.Fault(n.Health.Ill)
	}
}

// settingsStatus tells what each program runs.
func settingsStatus(ctx context.Context, c *act.Call, in *settingsInput) error {
	nodes, err := in.ledger.Nodes(ctx)
	if err != nil {
		return err
	}
	now, err := in.ledger.Current(ctx)
	if err != nil {
		c.Note("%v", err) // the rows can be read all the same
	}
	veilChanges(c, now)
	if err := c.Table("No program that has these settings runs.", "NAME", "VERSION", "FROM", "SINCE", "LOOKED", "ANSWER", "HEALTH", "WAITING", "FAULT"); err != nil {
		return err
	}
	for _, n := range nodes {
		veilNode(c, &n)
		line := SettingsNode{n, now.Rollout != nil && now.Rollout.Includes(n)}
		line.Values = nil // show tells them
		answer := ""
		switch v := n.Verdict; {
		case now.Candidate > 0 && (v == nil || v.Version != now.Candidate):
			answer = fmt.Sprintf("none yet to %d", now.Candidate)
		case v == nil:
		case v.Yes:
			answer = fmt.Sprintf("yes to %d", v.Version)
		default:
			answer = fmt.Sprintf("no to %d: %s", v.Version, v.Why)
		}
		if err := c.Row(line, n.Name, n.Version, string(n.Source), n.Since, n.At, act.Short(answer), healthOf(line), strings.Join(n.Waiting, ", "), act.Short(n.Fault)); err != nil {
			return err
		}
	}
	if text := aboutCandidate(c, in, now, now.WaitsFor(nodes)); text != "" {
		return c.Say(nil, "\n%s", text)
	}
	return nil
}

// healthOf tells people how a program fares with the change that is being rolled out.
func healthOf(n SettingsNode) string {
	switch h := n.Health; {
	case !n.Canary:
		return ""
	case h == nil:
		return "canary"
	case h.Ill != "":
		return act.Short("ill: " + h.Ill)
	case h.Since != nil:
		return fmt.Sprintf("canary, %d of %d calls failed", h.Since.Failed, h.Since.Done+h.Since.Failed)
	}
	return "canary, well"
}

// aboutCandidate tells people what goes on with the candidate, or how the last change has ended if it didn't come into
// force.
func aboutCandidate(c *act.Call, in *settingsInput, now settings.Current, waits []settings.Wait) string {
	if now.Candidate == 0 {
		if len(now.Ended) > 0 && (now.Ended[0].Result == settings.Refused || now.Ended[0].Result == settings.RolledBack) {
			e := now.Ended[0]
			return fmt.Sprintf("Version %d was %s %s: %s.", e.Version, e.Result, act.Ago(e.At), tuning.Reasons(e))
		}
		return ""
	}
	text := fmt.Sprintf("Version %d is %s.", now.Candidate, tuning.CandidateState(now.Rollout))
	if r := now.Rollout; r != nil && r.Why != "" {
		text += fmt.Sprintf("\nIt goes on when that is over. To change all programs at once instead: %s settings back --of %s, then %s settings set --of %s --now, with the same values.", c.Command, in.name, c.Command, in.name)
	}
	if len(waits) > 0 {
		text += "\n" + tuning.WaitsFor(waits)
	}
	return text
}

// quiet is how long set waits for answers before it says whose.
const quiet = 3 * time.Second

// tellWaits returns a function that tells people which programs set waits for, each time that those are others.
func tellWaits(c *act.Call, began time.Time) func([]settings.Wait) {
	before := ""
	return func(waits []settings.Wait) {
		var names []string
		for _, w := range waits {
			names = append(names, w.Node)
		}
		if now := fmt.Sprint(waits[0].Version, names); now != before && time.Since(began) >= quiet {
			before = now
			what := fmt.Sprintf("version %d", waits[0].Version)
			if waits[0].Other {
				what = fmt.Sprintf("another change, version %d,", waits[0].Version)
			}
			c.Note("%s is being checked. %s", what, tuning.WaitsFor(waits))
		}
	}
}
