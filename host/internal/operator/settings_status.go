package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/settings"
)

// standsStill is how long a roll-out may go without a step before it is a finding: longer than the longest poll.
const standsStill = 15 * time.Minute

// nodeLine is what settings status -json prints of a program.
type nodeLine struct {
	settings.Node
	Canary bool `json:"canary"` // it runs, or will soon run, the change that is being rolled out
}

// candidateState is what goes on with a candidate.
func candidateState(r *settings.Rollout) string {
	if r == nil {
		return "being checked"
	}
	return "being rolled out: " + stageOf(*r)
}

// stageOf tells people how far a roll-out has come.
func stageOf(r settings.Rollout) string {
	st := r.Stages[r.Stage]
	text := fmt.Sprintf("stage %d of %d, %d%% of the programs, baked %s of %s", r.Stage+1, len(r.Stages), st.Percent, age(r.Baked), age(st.Bake))
	if r.Why != "" {
		text += "; it waits: " + r.Why
	}
	return text
}

// settingsStatus prints what each program runs.
func settingsStatus(ctx context.Context, call *call) error {
	c, err := foundLedger(ctx, call)
	if err != nil {
		return err
	}
	nodes, err := c.ledger.Nodes(ctx)
	if err != nil {
		return err
	}
	now, err := c.ledger.Current(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(boot.AsTyped(err, c.Command).Error())) // the rows can be read all the same
	}
	var rows [][]string
	for _, n := range nodes {
		canary := now.Rollout != nil && now.Rollout.Includes(n)
		if c.json {
			n.Values = nil // show prints them
			if err := c.out.line(nodeLine{n, canary}); err != nil {
				return err
			}
		}
		answer := unknown
		switch v := n.Verdict; {
		case now.Candidate > 0 && (v == nil || v.Version != now.Candidate):
			answer = fmt.Sprintf("none yet to %d", now.Candidate)
		case v == nil:
		case v.Yes:
			answer = fmt.Sprintf("yes to %d", v.Version)
		default:
			answer = fmt.Sprintf("no to %d: %s", v.Version, v.Why)
		}
		rows = append(rows, []string{n.Name, fmt.Sprintf("%d", n.Version), string(n.Source), ago(n.Since), ago(n.At), short(answer), healthOf(n, canary), orUnknown(strings.Join(n.Waiting, ", ")), short(orUnknown(n.Fault))})
	}
	if c.json {
		return nil
	}
	if len(rows) == 0 {
		c.out.printf("No program that has these settings runs.\n")
	} else {
		c.out.table([]string{"NAME", "VERSION", "FROM", "SINCE", "LOOKED", "ANSWER", "HEALTH", "WAITING", "FAULT"}, rows)
	}
	c.tellCandidate(now, now.WaitsFor(nodes))
	return nil
}

// healthOf tells people how a program fares with the change that is being rolled out.
func healthOf(n settings.Node, canary bool) string {
	switch h := n.Health; {
	case !canary:
		return unknown
	case h == nil:
		return "canary"
	case h.Ill != "":
		return short("ill: " + h.Ill)
	case h.Since != nil:
		return fmt.Sprintf("canary, %d of %d calls failed", h.Since.Failed, h.Since.Done+h.Since.Failed)
	}
	return "canary, well"
}

// tellCandidate prints what goes on with the candidate, or how the last change has ended if it didn't come into force.
func (c settingsCall) tellCandidate(now settings.Current, waits []settings.Wait) {
	switch {
	case now.Candidate > 0:
		c.out.printf("\nVersion %d is %s.\n", now.Candidate, boot.Clean(candidateState(now.Rollout)))
		if r := now.Rollout; r != nil && r.Why != "" {
			c.out.printf("It goes on when that is over. To change all programs at once instead: %s settings back -of %s, then %s settings set -of %s -now, with the same values.\n", c.Command, c.name, c.Command, c.name)
		}
		if len(waits) > 0 {
			c.out.printf("%s\n", boot.Clean(waitsFor(waits)))
		}
	case len(now.Ended) > 0 && (now.Ended[0].Result == settings.Refused || now.Ended[0].Result == settings.RolledBack):
		e := now.Ended[0]
		c.out.printf("\nVersion %d was %s %s: %s.\n", e.Version, e.Result, ago(e.At), boot.Clean(reasonsOf(e)))
	}
}

// waitsFor tells people which programs have yet to answer.
func waitsFor(waits []settings.Wait) string {
	var all []string
	then := ""
	for _, w := range waits {
		if all = append(all, w.String()); time.Now().Before(w.Until) { // else the text of that one says so
			then = " One that has not looked again by then is passed over."
		}
	}
	return "It waits for the answer of " + strings.Join(all, ", ") + "." + then
}

// quiet is how long set waits for answers before it says whose.
const quiet = 3 * time.Second

// tellWaits returns a function that tells people which programs set waits for, each time that those are others.
func (c settingsCall) tellWaits(began time.Time) func([]settings.Wait) {
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
			_, _ = fmt.Fprintf(c.progress, "Note: %s is being checked. %s\n", what, boot.Clean(waitsFor(waits)))
		}
	}
}

func reasonsOf(e settings.Ending) string {
	var all []string
	for _, r := range e.Reasons {
		all = append(all, r.String())
	}
	return strings.Join(all, "; ")
}

// settingsFindings are about settings: programs that don't run what is in force or have fallen silent, changes that
// somebody said no to, and roll-outs that stand still.
func (c examination) settingsFindings(ctx context.Context) (all []finding, err error) {
	seen := 0
	for name, err := range settings.Names(ctx, c.store) {
		if err != nil {
			return nil, err
		}
		l, err := settings.At(c.store, name)
		if err != nil {
			continue // the blob is none of settings
		}
		now, err := l.Current(ctx)
		if err != nil {
			all = append(all, finding{Severity: wrong, Check: "settings", Text: fmt.Sprintf("settings %s can't be read, so nobody can change them: %v", name, err),
				Fix: fmt.Sprintf("Programs that run go on with what they have. Choose a version by %s settings history -of %s, and write it again: %s settings back -of %s -to VERSION", c.Command, name, c.Command, name)})
			continue
		}
		nodes, err := l.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, c.nodeFindings(name, now, nodes)...)
		all = append(all, c.changeFindings(name, now)...)
		all = append(all, forcedFindings(c.Command, name, now, nodes)...)
		all = append(all, restartFindings(name, now, nodes)...)
		if seen++; seen == mostSeen {
			break
		}
	}
	return all, nil
}

// nodeFindings are about programs that don't run what they shall.
func (c examination) nodeFindings(name string, now settings.Current, nodes []settings.Node) (all []finding) {
	for _, n := range nodes {
		poll := time.Duration(n.Poll) * time.Millisecond
		silent := time.Since(n.At)
		switch {
		case n.Fault != "":
			all = append(all, finding{Severity: wrong, Check: "settings", Program: n.Name, Text: fmt.Sprintf("%s runs version %d of settings %s, and %d is in force: %s", n.Name, n.Version, name, now.Version, n.Fault),
				Fix: fmt.Sprintf("Mend that, or change the settings: %s settings set -of %s. A program that starts so doesn't come up.", c.Command, name)})
		case silent > max(3*poll, clocksApart):
			all = append(all, finding{Severity: wrong, Check: "settings", Program: n.Name, Text: fmt.Sprintf("%s runs version %d of settings %s, and has not looked at them for %s", n.Name, n.Version, name, age(silent)),
				Fix: "It has died, or can't reach the store, or its clock is wrong. If it runs, look at its log."})
		case n.Version != now.Version && n.Version != now.Candidate && len(now.Ended) > 0 && time.Since(now.Ended[0].At) > max(3*poll, clocksApart):
			all = append(all, finding{Severity: wrong, Check: "settings", Program: n.Name, Text: fmt.Sprintf("%s still runs version %d of settings %s, and %d is in force", n.Name, n.Version, name, now.Version),
				Fix: "It looks at an older copy of them. Restart it."})
		}
	}
	return all
}

// forcedFindings are about a version that no program may be able to run.
func forcedFindings(command, name string, now settings.Current, nodes []settings.Node) []finding {
	if len(now.Ended) == 0 || now.Candidate > 0 || now.Ended[0].Result != settings.Forced || now.Ended[0].Version != now.Version ||
		slices.ContainsFunc(nodes, func(n settings.Node) bool { return n.Version == now.Version }) {
		return nil
	}
	return []finding{{Severity: note, Check: "settings", Text: fmt.Sprintf("version %d of settings %s was forced %s, and no program that runs has it", now.Version, name, ago(now.Ended[0].At)),
		Fix: fmt.Sprintf("A program that can't run it doesn't start, and its log says why. %s settings back -of %s takes it back.", command, name)}}
}

// changeFindings are about the candidate, and the last change.
func (c examination) changeFindings(name string, now settings.Current) (all []finding) {
	if r := now.Rollout; r != nil && time.Since(r.At) > standsStill {
		why := r.Why
		if why == "" {
			why = "no program drives it"
		}
		all = append(all, finding{Severity: wrong, Check: "settings", Text: fmt.Sprintf("the roll-out of version %d of settings %s has stood still for %s, in stage %d of %d: %s", r.Version, name, age(time.Since(r.At)), r.Stage+1, len(r.Stages), why),
			Fix: fmt.Sprintf("Mend that, or drop it: %s settings back -of %s. Then settings set -now changes all programs at once.", c.Command, name)})
	}
	if len(now.Ended) == 0 || now.Candidate > 0 {
		return all
	}
	if e := now.Ended[0]; e.Result == settings.Refused || e.Result == settings.RolledBack {
		all = append(all, finding{Severity: note, Check: "settings", Text: fmt.Sprintf("version %d of settings %s was %s %s: %s", e.Version, name, e.Result, ago(e.At), reasonsOf(e)),
			Fix: fmt.Sprintf("Version %d is in force. Mend that, and set it again; the next change that succeeds ends this note.", now.Version)})
	}
	return all
}
