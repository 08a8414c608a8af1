package acts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/tuning"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// A SettingsShown is the settings in force.
type SettingsShown struct {
	Name      string          `json:"name"`
	Epoch     int64           `json:"epoch"`
	Version   int64           `json:"version"` // in force; 0: the programs' defaults
	By        string          `json:"by"`
	Why       string          `json:"why"`
	At        *time.Time      `json:"at"`
	Set       json.RawMessage `json:"set"`     // a merge patch on the programs' defaults
	Values    json.RawMessage `json:"values"`  // with the defaults, by a node that runs the version; null: none does
	Waiting   []string        `json:"waiting"` // settings that wait for that node's restart: Values has what it still runs
	Candidate *int64          `json:"candidate"`

	Rollout *settings.Rollout `json:"rollout"` // of the candidate; null: it is being checked, or there is none
}

// A settingsInput is what all acts on settings take, and what some of them take.
type settingsInput struct {
	of     string
	limit  int             // of history
	from   int64           // of diff
	to     int64           // of diff and back; -1: none is given
	set    *settings.Patch // of set; nil for other acts
	now    bool
	wait   time.Duration
	name   string           // of the settings, once they are found
	ledger *settings.Ledger // once they are found
}

// mostSettle is how long set waits for the nodes' answers, unless --wait says otherwise: a node that has died is waited
// for until it has been silent for three polls.
const mostSettle = 2 * time.Minute

// Check implements the check of an input.
func (in *settingsInput) Check() error {
	switch {
	case in.set == nil:
		return nil
	case len(in.set.Set)+len(in.set.Unset) == 0:
		return act.Usage("want --values, or --default PATH")
	case in.now && in.set.Force:
		return act.Usage("--now and --force exclude one another: a forced change comes to all at once")
	}
	for _, path := range in.set.Unset {
		if in.set.Set[path] != nil {
			return act.Usage("%s is set twice", act.Word(path))
		}
	}
	return nil
}

func (in *settingsInput) fields() []act.Field {
	return []act.Field{act.Text(&in.of, "of", "the `NAME` with which the programs open them. A program's own is the default; without one it is needed where there are several, and before anything was set").
		With(storage.CheckName).From(func(ctx context.Context, d *act.Desk) []string {
		names, _ := tuning.Names(ctx, d) // nobody could read an error
		return names
	})}
}

func (in *settingsInput) setFields() []act.Field {
	in.set, in.wait = &settings.Patch{Set: map[string]json.RawMessage{}}, mostSettle
	values := act.Field{Name: "values", About: "the new values", Many: true, Set: func(text string) error { return tuning.Assign(in.set.Set, text) }}
	return append(in.fields(), values.At("PATH=VALUE").Maybe(),
		act.Texts(&in.set.Unset, "default", "let the programs' default hold for this `PATH`; may be given several times"),
		act.Flag(&in.set.Force, "force", "change them whatever the programs say; those that don't answer within 10s are passed over"),
		act.Flag(&in.now, "now", "all programs at once, also if theirs say that changes come in stages; each checks it all the same"),
		act.Duration(&in.wait, "wait", "wait for the programs' answers for this `TIME`", time.Millisecond, act.MaxAhead))
}

// versionField reads the number of a version. hint says more to somebody who gave none.
func versionField(to *int64, name, about, hint string) act.Field {
	*to = -1
	return act.Field{Name: name, About: about, Kind: act.KindNumber, Set: func(s string) (err error) {
		if *to, err = strconv.ParseInt(s, 10, 64); err != nil || *to < 0 {
			return errors.New("want a version, 0 or more; " + hint + "settings history lists the versions")
		}
		return nil
	}}
}

func settingActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "settings", Verb: "show", Role: act.Viewer, About: "show the settings in force",
			More: "It prints all values, defaults included, as a program that runs has them. Where none does, it prints those that somebody has set. " +
				"Secrets are shown by their references.",
		}, (*settingsInput).fields, ofSettings(true, showSettings)),
		act.New(act.Act{Noun: "settings", Verb: "history", Role: act.Viewer, Reveals: true, About: "list the versions of settings: who changed what, when, and why",
			More: "RESULT is in force (it came into force), forced, refused, dropped (for another change), rolled back, rolling out, checking, or not " +
				"proposed (its writer stopped, or another change was first). The results of the last 50 changes are kept. CHANGES has the old and the " +
				"new value of each path; default is the programs' default. REASON is who said no, was ill, was passed over or dropped it, and why. " +
				"– means that nothing was given.",
		}, func(in *settingsInput) []act.Field {
			in.limit = 100
			return append(in.fields(), act.Limit(&in.limit, "versions"))
		}, ofSettings(true, listVersions)),
		act.New(act.Act{Noun: "settings", Verb: "diff", Role: act.Viewer, About: "list what is different in two versions",
			More: "Without TO it is the version in force. Version 0 is that of the programs' defaults, and default means that those hold.",
		}, func(in *settingsInput) []act.Field {
			return append(in.fields(), versionField(&in.from, "from", "the first version", "").At("FROM"), versionField(&in.to, "to", "the second version", "").At("TO").Maybe())
		}, ofSettings(true, compareVersions)),
		act.New(act.Act{Noun: "settings", Verb: "status", Role: act.Viewer, Reveals: true, About: "list the programs that have the settings, and what each runs",
			More: "ANSWER is to the change that is being checked or rolled out, or to the last one. LOOKED is by the program's own clock. A program " +
				"that has died is listed for another three polls (90s), and longer while no other one runs. WAITING names settings that need its " +
				"restart. While a change is rolled out, HEALTH tells who runs it, and who is ill. --json has that line in settings show.",
		}, (*settingsInput).fields, ofSettings(true, settingsStatus)),
		act.New(act.Act{Noun: "settings", Verb: "set", Role: act.Operator, Why: act.May, About: "change settings",
			More: "PATH is the names of the members, joined by dots: mail.rate. A name with a dot has quotes: " +
				"'guards.\"api.example.com\".rate=80'. VALUE is JSON, or else a text: seats=60, log=debug, 'tags={\"a\":1}'.\n\n" +
				"Each program that runs checks the change, and one no is enough: then nobody has it, and the exit code is 1. Where no program runs, " +
				"nobody can check it, and it is refused. If the programs say so, the change then comes in stages: the verb ends when they begin, and " +
				"settings status shows how they go on. While they do, there is no other change but by --force. A secret is set by its reference: " +
				"env:NAME or file:PATH.",
		}, (*settingsInput).setFields, ofSettings(false, setSettings)),
		act.New(act.Act{Noun: "settings", Verb: "back", Role: act.Operator, Once: true, Why: act.May, About: "go back to an earlier version of settings, at once",
			More: "A change that is being checked or rolled out is dropped; without --to that is all. Else there is a new version with the old " +
				"values. It asks no program, because the old one was in force before. With --to it also repairs settings whose document is lost or damaged.",
		}, func(in *settingsInput) []act.Field {
			return append(in.fields(), versionField(&in.to, "to", "the `VERSION`; 0 is that of the programs' defaults. The default undoes the last change", "without --to it undoes the last change, and "))
		}, ofSettings(false, goBack)),
	}
}

// ofSettings makes an act find its settings first. If known, somebody has set them, or a program has them.
func ofSettings(known bool, do func(context.Context, *act.Call, *settingsInput) error) func(context.Context, *act.Call, *settingsInput) error {
	return func(ctx context.Context, c *act.Call, in *settingsInput) (err error) {
		if in.name, err = tuning.Which(ctx, c.Desk, in.of); err != nil {
			return err
		}
		if in.ledger, err = settings.At(c.Store, in.name); err != nil {
			return err
		}
		if known && in.of != "" {
			if err := tuning.There(ctx, c.Desk, in.ledger, in.name); err != nil {
				return err
			}
		}
		return do(ctx, c, in)
	}
}

// showSettings tells what is in force.
func showSettings(ctx context.Context, c *act.Call, in *settingsInput) error {
	now, err := in.ledger.Current(ctx)
	if err != nil {
		return err
	}
	v, err := in.ledger.Version(ctx, now.Version)
	if err != nil {
		return err
	}
	nodes, err := in.ledger.Nodes(ctx)
	if err != nil {
		return err
	}
	line := SettingsShown{Name: in.name, Epoch: now.Epoch, Version: now.Version, By: v.By, Why: v.Why, At: act.Maybe(v.At), Set: now.Values, Candidate: act.Maybe(now.Candidate), Rollout: now.Rollout}
	for _, n := range nodes {
		if n.Version == now.Version && n.Values != nil && (line.Values == nil || len(n.Waiting) < len(line.Waiting)) {
			line.Values, line.Waiting = n.Values, n.Waiting
		}
	}
	text := fmt.Sprintf("Settings %s, version %d, by %s, %s", in.name, now.Version, v.By, act.Ago(v.At))
	switch {
	case now.Version == 0:
		text = fmt.Sprintf("Settings %s: the programs' defaults are in force", in.name)
	case v.Why != "":
		text += ": " + v.Why
	}
	text += "."
	shown := line.Values
	if shown == nil {
		shown = line.Set
		text += " Shown is what somebody has set, because no program that runs has told of its values in this version. Each other value is the program's own default."
	}
	if len(line.Waiting) > 0 {
		text += fmt.Sprintf(" %s: the change waits for a restart, and what is shown is what the programs run until then.", strings.Join(line.Waiting, ", "))
	}
	if now.Candidate > 0 {
		text += fmt.Sprintf(" Version %d is %s.", now.Candidate, tuning.CandidateState(now.Rollout))
	}
	return errors.Join(c.Thing(line, nil, string(shown)), c.Say(nil, "%s", text))
}
