package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// mostSettle is how long set waits for the nodes' answers, unless -wait says otherwise: a node that has died is waited
// for until it has been silent for three polls.
const mostSettle = 2 * time.Minute

// shownSettings is what settings show -json prints.
type shownSettings struct {
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

// settingsVersionLine is what settings history -json prints of a version.
type settingsVersionLine struct {
	Version int64              `json:"version"`
	Base    int64              `json:"base"`
	BackTo  *int64             `json:"back_to"`
	Result  string             `json:"result"` // a settings.Result, checking, not proposed, no longer kept, unknown or corrupt
	Reasons []settings.Refusal `json:"reasons"`
	At      *time.Time         `json:"at"`
	By      string             `json:"by"`
	Why     string             `json:"why"`
	Changes []settings.Change  `json:"changes"`
	Error   string             `json:"error,omitempty"`
}

// endedLine is what -json prints of a change.
type endedLine struct {
	Name    string             `json:"name"`
	Version int64              `json:"version"`
	Result  string             `json:"result"`
	Reasons []settings.Refusal `json:"reasons"`
	Restart []needsRestart     `json:"restart"` // programs that must be started again, for settings that it is in force with
}

func settingsVerbs() []*verb {
	of := func(set *flag.FlagSet, o *options) {
		set.Func("of", "the `NAME` with which the programs open them. A program's own is the default; without one it is needed where there\nare several, and before anything was set", text(&o.of))
	}
	changing := func(set *flag.FlagSet, o *options) {
		of(set, o)
		noteFlags(set, o)
	}
	return []*verb{
		{name: "settings show", about: "show the settings in force", store: true, run: settingsShow, flags: of,
			more: "It prints all values, defaults included, as a program that runs has them. Where none does, it prints those that somebody has set.\n" +
				"Secrets are shown by their references."},
		{name: "settings history", about: "list the versions of settings: who changed what, when, and why", store: true, run: settingsHistory,
			flags: func(set *flag.FlagSet, o *options) {
				of(set, o)
				o.limit = 100
				limitFlag(set, o, "versions")
			},
			more: "RESULT is in force (it came into force), forced, refused, dropped (for another change), rolled back, rolling out, checking, or not\nproposed (its writer stopped, or another change was first). The results of the last 50 changes are kept. CHANGES has the old and the\nnew value of each path; default is the programs' default. REASON is who said no, was ill, was passed over or dropped it, and why.\n– means that nothing was given."},
		{name: "settings diff", args: "FROM [TO]", least: 1, most: 2, about: "list what is different in two versions", store: true, before: checkDiff, run: settingsDiff, flags: of,
			more: "Without TO it is the version in force. Version 0 is that of the programs' defaults, and default means that those hold."},
		{name: "settings status", about: "list the programs that have the settings, and what each runs", store: true, run: settingsStatus, flags: of,
			more: "ANSWER is to the change that is being checked or rolled out, or to the last one. LOOKED is by the program's own clock. A program\nthat has died is listed for another three polls (90s), and longer while no other one runs. WAITING names settings that need its\nrestart. While a change is rolled out, HEALTH tells who runs it, and who is ill. -json has that line in settings show."},
		{name: "settings set", args: "PATH=VALUE…", most: 1000, about: "change settings", store: true, before: readPatch, run: settingsSet, check: checkSet,
			flags: func(set *flag.FlagSet, o *options) {
				changing(set, o)
				set.Func("default", "let the programs' default hold for this `PATH`; may be given several times", func(s string) error {
					var path string
					err := text(&path)(s)
					o.unset = append(o.unset, path)
					return err
				})
				set.BoolVar(&o.force, "force", false, "change them whatever the programs say; those that don't answer within 10s are passed over")
				set.BoolVar(&o.now, "now", false, "all programs at once, also if theirs say that changes come in stages; each checks it all the same")
				o.wait = mostSettle
				set.DurationVar(&o.wait, "wait", o.wait, "wait for the programs' answers for this `TIME`; the default is 2m")
			},
			more: "PATH is the names of the members, joined by dots: mail.rate. A name with a dot has quotes:\n" +
				"'guards.\"api.example.com\".rate=80'. VALUE is JSON, or else a text: seats=60, log=debug, 'tags={\"a\":1}'.\n" +
				"Each program that runs checks the change, and one no is enough: then nobody has it, and the exit code is 1. Where no program runs,\n" +
				"nobody can check it, and it is refused. If the programs say so, the change then comes in stages: the verb ends when they begin, and\nsettings status shows how they go on. While they do, there is no other change but by -force. A secret is set by its reference: env:NAME or file:PATH."},
		{name: "settings back", about: "go back to an earlier version of settings, at once", store: true, run: settingsBack,
			flags: func(set *flag.FlagSet, o *options) {
				changing(set, o)
				o.to = -1
				set.Func("to", "the `VERSION`; 0 is that of the programs' defaults. The default undoes the last change", func(s string) (err error) {
					if o.to, err = strconv.ParseInt(s, 10, 64); err != nil || o.to < 0 {
						return errors.New("want a version, 0 or more; without -to it undoes the last change, and settings history lists the versions")
					}
					return nil
				})
			},
			more: "A change that is being checked or rolled out is dropped; without -to that is all. Else there is a new version with the old\n" +
				"values. It asks no program, because the old one was in force before. With -to it also repairs settings whose document is lost or damaged."},
	}
}

func checkSet(name string, o options) error {
	if o.now && o.force {
		return usage("%s: -now and -force exclude one another: a forced change comes to all at once", name)
	}
	if o.wait <= 0 {
		return usage("%s: -wait: want a positive time", name)
	}
	return nil
}

// readPatch reads PATH=VALUE…, before the store is opened.
func readPatch(_ context.Context, c *call) error {
	c.patch = settings.Patch{Set: map[string]json.RawMessage{}, Unset: c.unset, Force: c.force}
	for _, arg := range c.args {
		path, value, ok := strings.Cut(arg, "=")
		if _, twice := c.patch.Set[path]; twice || slices.Contains(c.unset, path) {
			return usage("settings set: %s is set twice", boot.Word(path))
		}
		switch {
		case !ok || path == "":
			return usage("settings set: want PATH=VALUE, such as seats=60")
		case value == "": // it may come from an unset variable of the shell
			return usage("settings set: %s has no value; for an empty text write PATH='\"\"', for the program's default -default PATH", boot.Word(path))
		case json.Valid([]byte(value)):
			c.patch.Set[path] = json.RawMessage(value)
		default:
			if likeReference(value) && new(settings.Secret).UnmarshalText([]byte(value)) != nil {
				return usage("settings set: %s: a text of the form NAME:… is taken for the reference of a secret, and that is env:NAME or file:PATH. A text that is no reference is written as JSON: PATH='\"…\"'", boot.Word(path))
			}
			data, err := json.Marshal(value)
			if err != nil {
				return err
			}
			c.patch.Set[path] = data
		}
	}
	if len(c.patch.Set)+len(c.patch.Unset) == 0 {
		return usage("settings set: want PATH=VALUE, or -default PATH")
	}
	return nil
}

// likeReference reports that a text is taken for the reference of a secret, misspelt or not: evn:SMTP_URL. Addresses of
// hosts and of the web aren't. It may be that no program runs that knows which settings are secrets, so this looks at
// the form alone.
func likeReference(text string) bool {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || len(scheme) < 2 || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz") != "" {
		return false
	}
	return rest == "" || !strings.ContainsRune(" 0123456789", rune(rest[0])) && (!strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "///"))
}

func checkDiff(_ context.Context, c *call) error {
	for _, arg := range c.args {
		if n, err := strconv.ParseInt(arg, 10, 64); err != nil || n < 0 {
			return usage("settings diff: want the numbers of versions, such as 41 42")
		}
	}
	return nil
}

// A settingsCall is a run of a verb of settings.
type settingsCall struct {
	coordCall
	name   string
	ledger *settings.Ledger
}

// ledgerOf finds the settings that a command line is about.
func ledgerOf(ctx context.Context, c *call) (x settingsCall, err error) {
	x.coordCall, x.name = coordCall{c}, cmp.Or(c.of, c.Settings)
	if x.name == "" {
		names, err := settingsNames(ctx, c)
		if err == nil && len(names) > 1 {
			names, err = inUse(ctx, c, names)
		}
		if err != nil {
			return x, err
		}
		switch {
		case len(names) == 0:
			return x, nothing("nobody has set anything yet; name the settings of a program by -of NAME, which for most is the program's name")
		case len(names) == 1:
			x.name = names[0]
		default:
			return x, usage("there are several settings: add -of with one of %s", strings.Join(names, ", "))
		}
	}
	if err := storage.CheckName(x.name); err != nil {
		return x, usage("-of: %w", err)
	}
	x.ledger, err = settings.At(c.store, x.name)
	return x, err
}

func settingsNames(ctx context.Context, c *call) (names []string, err error) {
	for name, err := range settings.Names(ctx, c.store) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// inUse leaves out settings that no program has and whose values are all the programs' defaults again: somebody has
// forced a change under a misspelt name, and taken it back. If no others are left, it returns all.
func inUse(ctx context.Context, c *call, all []string) (names []string, err error) {
	for _, name := range all {
		l, err := settings.At(c.store, name)
		if err != nil {
			continue // the blob is none of settings
		}
		now, err := l.Current(ctx)
		if errors.Is(err, storage.ErrInvalid) { // it is damaged, and can be repaired
			names = append(names, name)
			continue
		}
		nodes, errNodes := l.Nodes(ctx)
		if err := errors.Join(err, errNodes); err != nil {
			return nil, err
		}
		if string(now.Values) != "{}" || now.Candidate > 0 || len(nodes) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return names, nil
}

// foundLedger is ledgerOf for a verb that is about settings that somebody has set, or a program has.
func foundLedger(ctx context.Context, c *call) (settingsCall, error) {
	x, err := ledgerOf(ctx, c)
	if err != nil || c.of == "" {
		return x, err
	}
	names, err := settingsNames(ctx, c)
	if err != nil || len(names) == 0 || slices.Contains(names, x.name) { // where nobody has set anything, it may be one that will be
		return x, err
	}
	nodes, err := x.ledger.Nodes(ctx)
	if err != nil || len(nodes) > 0 {
		return x, err
	}
	for range x.ledger.History(ctx) {
		return x, nil // what is in force is lost, and the versions aren't
	}
	return x, nothing("there are no settings %s: nobody has set any, and no program that has them runs; there are %s", x.name, strings.Join(names, ", "))
}

// settingsShow prints what is in force.
func settingsShow(ctx context.Context, call *call) error {
	c, err := foundLedger(ctx, call)
	if err != nil {
		return err
	}
	now, err := c.ledger.Current(ctx)
	if err != nil {
		return err
	}
	v, err := c.ledger.Version(ctx, now.Version)
	if err != nil {
		return err
	}
	nodes, err := c.ledger.Nodes(ctx)
	if err != nil {
		return err
	}
	line := shownSettings{Name: c.name, Epoch: now.Epoch, Version: now.Version, By: v.By, Why: v.Why, At: maybe(v.At), Set: now.Values, Candidate: maybe(now.Candidate), Rollout: now.Rollout}
	for _, n := range nodes {
		if n.Version == now.Version && n.Values != nil && (line.Values == nil || len(n.Waiting) < len(line.Waiting)) {
			line.Values, line.Waiting = n.Values, n.Waiting
		}
	}
	if c.json {
		return c.out.line(line)
	}
	shown := line.Values
	if shown == nil {
		shown = line.Set
	}
	c.out.printf("%s\n", indented(shown))
	return c.tellShown(line)
}

// tellShown tells people what settings show has printed.
func (c settingsCall) tellShown(line shownSettings) error {
	text := fmt.Sprintf("Settings %s, version %d, by %s, %s%s.", c.name, line.Version, line.By, ago(deref(line.At)), because(line.Why))
	if line.Version == 0 {
		text = fmt.Sprintf("Settings %s: the programs' defaults are in force.", c.name)
	}
	if line.Values == nil {
		text += " No program runs that version, so these are the values that somebody has set; for others the programs' defaults hold."
	}
	if len(line.Waiting) > 0 {
		text += fmt.Sprintf(" %s: the change waits for a restart, and what is shown is what the programs run until then.", strings.Join(line.Waiting, ", "))
	}
	if line.Candidate != nil {
		text += fmt.Sprintf(" Version %d is %s.", *line.Candidate, candidateState(line.Rollout))
	}
	_, err := fmt.Fprintf(c.progress, "%s\n", boot.Clean(text))
	return err
}

func deref(t *time.Time) (x time.Time) {
	if t != nil {
		x = *t
	}
	return x
}

// because is a reason after a sentence.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// settingsSet changes settings.
func settingsSet(ctx context.Context, call *call) error {
	c, err := ledgerOf(ctx, call)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("not all programs have answered within %v; %s settings status -of %s tells more, and settings set -force passes them over", c.wait, c.Command, c.name))
	defer cancel()
	c.patch.Waits = c.tellWaits(time.Now())
	e, err := c.ledger.Set(limited, settings.Note{By: c.author(), Why: c.why, Now: c.now}, c.patch)
	if err != nil && e.Result == "" && ctx.Err() != nil {
		return c.interrupted(e.Version)
	}
	if errors.Is(err, settings.ErrUnchanged) {
		c.tellMissing(ctx)
	}
	return c.ended(ctx, e, err)
}

// tellMissing makes a note of paths whose default holds already, because no program has them.
func (c settingsCall) tellMissing(ctx context.Context) {
	nodes, err := c.ledger.Nodes(ctx)
	if err != nil {
		return // it would only be a hint
	}
	for _, path := range c.unset {
		known := func(n settings.Node) bool { return n.Values == nil || hasPath(n.Values, path) }
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, known) {
			_, _ = fmt.Fprintf(c.progress, "Note: no program that runs has a value at %s; the name may be misspelt.\n", boot.Word(path))
		}
	}
}

// hasPath reports that an object of JSON has a member at a path.
func hasPath(object json.RawMessage, path string) bool {
	names, err := settings.NamesOf(path)
	for _, name := range names {
		var members map[string]json.RawMessage
		if json.Unmarshal(object, &members) != nil || members[name] == nil {
			return false
		}
		object = members[name]
	}
	return err == nil
}

// interrupted is the error of a set that a signal has stopped. version is what it may have written, 0 for nothing.
func (c settingsCall) interrupted(version int64) error {
	if version == 0 {
		return errors.New("settings set: stopped by a signal; nothing was changed")
	}
	text := "the programs check it, and it comes into force when all have said yes"
	if c.force {
		text = "it comes into force when all programs have answered, and none is passed over any more"
	}
	return fmt.Errorf("settings set: stopped by a signal. Version %d goes on without this command: %s. %s settings status -of %s shows how it ends. "+
		"Until then, and once it is in force, %s settings back -of %s takes it back", version, text, c.Command, c.name, c.Command, c.name)
}

// settingsBack goes back to an earlier version.
func settingsBack(ctx context.Context, call *call) error {
	c, err := ledgerOf(ctx, call)
	if err != nil {
		return err
	}
	e, err := c.ledger.Back(ctx, c.to, settings.Note{By: c.author(), Why: c.why})
	if errors.Is(err, storage.ErrNotFound) {
		if _, err := c.ledger.Version(ctx, c.to); c.to > 0 && errors.Is(err, storage.ErrNotFound) {
			return c.noVersion(c.to)
		}
		return nothing("%v", err)
	}
	return c.ended(ctx, e, err)
}

// ended prints how a change has ended.
func (c settingsCall) ended(ctx context.Context, e settings.Ending, err error) error {
	line := endedLine{Name: c.name, Version: e.Version, Result: string(e.Result), Reasons: e.Reasons}
	text := fmt.Sprintf("Settings %s: version %d is in force.", c.name, e.Version)
	switch e.Result {
	case settings.Rolling:
		text = fmt.Sprintf("Settings %s: all programs agree, and version %d is being rolled out in stages. %s settings status -of %s shows how it goes.", c.name, e.Version, c.Command, c.name)
	case settings.Dropped, settings.RolledBack:
		text = fmt.Sprintf("Settings %s: version %d is %s. What was in force stays.", c.name, e.Version, e.Result)
	}
	if errors.Is(err, settings.ErrUnchanged) {
		line.Result, err = unchanged, nil
		text = fmt.Sprintf("Settings %s are so already.", c.name)
	}
	more := ""
	if err == nil && (e.Result == settings.InForce || e.Result == settings.Forced) {
		line.Restart, more = c.incomplete(ctx, e.Version)
	}
	if line.Result != "" && c.json {
		return errors.Join(c.out.line(line), err)
	}
	if err != nil {
		return err
	}
	passed := map[string]bool{}
	for _, r := range e.Reasons {
		if e.Result != settings.Forced {
			break
		}
		passed[fmt.Sprintf("%s (%s)", r.Node, r.Why)] = true
	}
	if e.Result == settings.Forced && len(passed) == 0 {
		text += " No program has said no; where none runs, none has checked it."
	}
	if len(passed) > 0 {
		text += " Passed over: " + strings.Join(slices.Sorted(maps.Keys(passed)), ", ") + "."
	}
	c.out.printf("%s\n", boot.Clean(text+more))
	return nil
}
