package acts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/tuning"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// A SettingsChange is how a change of settings has ended.
type SettingsChange struct {
	Name    string             `json:"name"`
	Version int64              `json:"version"`
	Result  string             `json:"result"`
	Reasons []settings.Refusal `json:"reasons"`
	Restart []NeedsRestart     `json:"restart"` // programs that must be started again, for settings that it is in force with
}

// setSettings changes settings.
func setSettings(ctx context.Context, c *act.Call, in *settingsInput) error {
	limited, cancel := context.WithTimeoutCause(ctx, in.wait, fmt.Errorf("not all programs have answered within %v; %s settings status --of %s tells more; --force passes them over", in.wait, c.Command, in.name))
	defer cancel()
	in.set.Waits = tellWaits(c, time.Now())
	e, err := in.ledger.Set(limited, settings.Note{By: c.By, Why: c.Why, Now: in.now}, *in.set)
	if err != nil && e.Result == "" && ctx.Err() != nil {
		return interrupted(c, in, e.Version)
	}
	if errors.Is(err, settings.ErrUnchanged) {
		noteMissing(ctx, c, in)
	}
	return ended(ctx, c, in, e, err)
}

// noteMissing makes a note of paths whose default holds already, because no program has them.
func noteMissing(ctx context.Context, c *act.Call, in *settingsInput) {
	nodes, err := in.ledger.Nodes(ctx)
	if err != nil {
		return // it would only be a hint
	}
	for _, path := range in.set.Unset {
		known := func(n settings.Node) bool { return n.Values == nil || tuning.HasPath(n.Values, path) }
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, known) {
			c.Note("no program that runs has a value at %s; the name may be misspelt.", act.Word(path))
		}
	}
}

// interrupted is the error of a set that a signal has stopped. version is what it may have written, 0 for nothing.
func interrupted(c *act.Call, in *settingsInput, version int64) error {
	if version == 0 {
		return errors.New("settings set: stopped by a signal; nothing was changed")
	}
	text := "the programs check it, and it comes into force when all have said yes"
	if in.set.Force {
		text = "it comes into force when all programs have answered, and none is passed over any more"
	}
	return fmt.Errorf("settings set: stopped by a signal. Version %d goes on without this command: %s. %s settings status --of %s shows how it ends. "+
		"Until then, and once it is in force, %s settings back --of %s takes it back", version, text, c.Command, in.name, c.Command, in.name)
}

// goBack goes back to an earlier version.
func goBack(ctx context.Context, c *act.Call, in *settingsInput) error {
	e, err := in.ledger.Back(ctx, in.to, settings.Note{By: c.By, Why: c.Why})
	if !errors.Is(err, storage.ErrNotFound) {
		return ended(ctx, c, in, e, err)
	}
	if in.to > 0 {
		if err := in.hasVersion(ctx, c, in.to); err != nil {
			return err
		}
	}
	return act.Nothing("%v", err)
}

// ended tells how a change has ended.
func ended(ctx context.Context, c *act.Call, in *settingsInput, e settings.Ending, err error) error {
	e.Reasons = slices.Clone(e.Reasons)
	for i := range e.Reasons {
		e.Reasons[i].Why = c.Veiled(e.Reasons[i].Why)
	}
	line := SettingsChange{Name: in.name, Version: e.Version, Result: string(e.Result), Reasons: e.Reasons}
	text := fmt.Sprintf("Settings %s: version %d is in force.", in.name, e.Version)
	switch {
	case errors.Is(err, settings.ErrUnchanged):
		line.Result = unchanged
		return c.Say(line, "Settings %s are so already.", in.name)
	case err != nil && line.Result != "":
		veiled := c.Veiled(err.Error())
		if why := e.Err(); why != nil {
			veiled = fmt.Sprintf("settings %s: %v", in.name, why)
		}
		return errors.Join(c.Thing(line, nil, ""), c.OfGiven(err, veiled)) // whoever asks for the change reads the error
	case err != nil:
		return err
	case e.Result == settings.Rolling:
		text = fmt.Sprintf("Settings %s: all programs agree, and version %d is being rolled out in stages. %s settings status --of %s shows how it goes.", in.name, e.Version, c.Command, in.name)
	case e.Result == settings.Dropped, e.Result == settings.RolledBack:
		text = fmt.Sprintf("Settings %s: version %d is %s. What was in force stays.", in.name, e.Version, e.Result)
	}
	if e.Result == settings.Forced {
		text += tuning.PassedOver(e)
	}
	if e.Result == settings.InForce || e.Result == settings.Forced {
		var more string
		line.Restart, more = incomplete(ctx, c, in, e.Version)
		text += more
	}
	return c.Say(line, "%s", text)
}

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
		nodes, others = tuning.Restarts(version, all)
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
		text = fmt.Sprintf(" Not all of it holds yet: %s. Nothing restarts programs by itself.", tuning.RestartText(nodes))
	}
	if others > 0 {
		text += fmt.Sprintf(" Programs that don't run it yet: %d; %s settings status --of %s shows which.", others, c.Command, in.name)
	}
	return need, text
}
