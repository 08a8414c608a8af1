package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/tuning"
	"github.com/millrace-go/millrace/settings"
)

// standsStill is how long a roll-out may go without a step before it is a finding: longer than the longest poll.
const standsStill = 15 * time.Minute

// settingsFindings are about settings: programs that don't run what is in force or have fallen silent, changes that
// somebody said no to, and roll-outs that stand still.
func settingsFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for name, err := range atMost(mostSeen, settings.Names(ctx, desk.Store)) {
		if err != nil {
			return nil, err
		}
		l, err := settings.At(desk.Store, name)
		if err != nil {
			continue // the blob is none of settings
		}
		now, err := l.Current(ctx)
		if err != nil {
			all = append(all, Finding{Severity: Wrong, Check: "settings", About: name, Text: fmt.Sprintf("settings %s can't be read, so nobody can change them: %v", name, err)}.
				mended(desk, "Programs that run go on with what they have. Choose a version by %s, and write it again: %s",
					act.Hint{Act: "settings history", Flags: map[string]string{"of": name}}, act.Hint{Act: "settings back", Flags: map[string]string{"of": name}, Open: "--to VERSION"}))
			continue
		}
		nodes, err := l.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Concat(nodeFindings(desk, name, now, nodes), changeFindings(desk, name, now, nodes), restartFindings(name, now, nodes))...)
	}
	return all, nil
}

// nodeFindings are about programs that don't run what they shall.
func nodeFindings(desk *act.Desk, name string, now settings.Current, nodes []settings.Node) (all []Finding) {
	for _, n := range nodes {
		poll := time.Duration(n.Poll) * time.Millisecond
		silent := time.Since(n.At)
		switch {
		case n.Fault != "":
			all = append(all, Finding{Severity: Wrong, Check: "settings", Program: n.Name, About: name, Text: fmt.Sprintf("%s runs version %d of settings %s, and can't run %d, which is in force", n.Name, n.Version, name, now.Version)}.
				mended(desk, "The error: %s. Mend that, or change the settings: %s. A program that starts so doesn't come up.", revealed(act.Hint{Act: "settings status", Flags: map[string]string{"of": name}}), act.Hint{Act: "settings set", Flags: map[string]string{"of": name}, Open: "PATH=VALUE"}))
		case silent > max(3*poll, clocksApart):
			all = append(all, Finding{Severity: Wrong, Check: "settings", Program: n.Name, About: name, Text: fmt.Sprintf("%s runs version %d of settings %s, and has not looked at them for %s", n.Name, n.Version, name, act.Age(silent)),
				Fix: "It has died, or can't reach the store, or its clock is wrong. If it runs, look at its log."})
		case n.Version != now.Version && n.Version != now.Candidate && len(now.Ended) > 0 && time.Since(now.Ended[0].At) > max(3*poll, clocksApart):
			all = append(all, Finding{Severity: Wrong, Check: "settings", Program: n.Name, About: name, Text: fmt.Sprintf("%s still runs version %d of settings %s, and %d is in force", n.Name, n.Version, name, now.Version),
				Fix: "It looks at an older copy of them. Restart it."})
		}
	}
	return all
}

// revealed is the act that tells why programs don't take a change. Their errors may be personal, so no finding has the
// errors.
func revealed(h act.Hint) act.Hint {
	h.Open = "--reveal --why TEXT"
	return h
}

// changeFindings are about the candidate, and about a last change that didn't come into force, or that no program may
// be able to run.
func changeFindings(desk *act.Desk, name string, now settings.Current, nodes []settings.Node) (all []Finding) {
	if r := now.Rollout; r != nil && time.Since(r.At) > standsStill {
		all = append(all, Finding{Severity: Wrong, Check: "settings", About: "the roll-out of " + name, Text: fmt.Sprintf("the roll-out of version %d of settings %s has stood still for %s, in stage %d of %d: %s", r.Version, name, act.Age(time.Since(r.At)), r.Stage+1, len(r.Stages), cmp.Or(r.Why, "no program drives it"))}.
			mended(desk, "Mend that, or drop it: %s. Then settings set --now changes all programs at once.", act.Hint{Act: "settings back", Flags: map[string]string{"of": name}}))
	}
	if len(now.Ended) == 0 || now.Candidate > 0 {
		return all
	}
	runs := func(n settings.Node) bool { return n.Version == now.Version }
	switch e := now.Ended[0]; {
	case e.Result == settings.Refused, e.Result == settings.RolledBack:
		who := tuning.Blamed(e)
		if who != "" {
			who = ", because of " + who
		}
		all = append(all, Finding{Severity: Note, Check: "settings", About: "the last change of " + name, Text: fmt.Sprintf("version %d of settings %s was %s %s%s", e.Version, name, e.Result, act.Ago(e.At), who)}.
			mended(desk, "Version %d is in force. The reason: %s. Mend that, and set it again; the next change that succeeds ends this note.", now.Version, revealed(act.Hint{Act: "settings history", Flags: map[string]string{"of": name}})))
	case e.Result == settings.Forced && e.Version == now.Version && !slices.ContainsFunc(nodes, runs):
		all = append(all, Finding{Severity: Note, Check: "settings", About: "the last change of " + name, Text: fmt.Sprintf("version %d of settings %s was forced %s, and no program that runs has it", now.Version, name, act.Ago(e.At))}.
			mended(desk, "A program that can't run it doesn't start, and its log says why. %s takes it back.", act.Hint{Act: "settings back", Flags: map[string]string{"of": name}}))
	}
	return all
}

// restartFindings are about settings that are in force and don't hold.
func restartFindings(name string, now settings.Current, nodes []settings.Node) []Finding {
	need, _ := tuning.Restarts(now.Version, nodes)
	if len(need) == 0 {
		return nil
	}
	slices.SortFunc(need, func(a, b settings.Node) int { return strings.Compare(a.Name, b.Name) })
	return []Finding{{Severity: Wrong, Check: "settings", About: "restarts for " + name, Text: fmt.Sprintf("version %d of settings %s is in force, and not all of it holds: %s", now.Version, name, tuning.RestartText(need)),
		Fix: "Restart one at a time. Nothing restarts programs by itself."}}
}
