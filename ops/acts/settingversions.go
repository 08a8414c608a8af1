package acts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// A SettingsVersion is a version of settings.
type SettingsVersion struct {
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

// listVersions lists the versions.
func listVersions(ctx context.Context, c *act.Call, in *settingsInput) error {
	now, err := in.ledger.Current(ctx)
	if err != nil {
		c.Note("%v", err) // the versions can be read all the same
	}
	ended := map[int64]settings.Ending{}
	for _, e := range now.Ended {
		ended[e.Version] = e
	}
	if err := c.Table("No versions: nobody has set anything.", "VERSION", "RESULT", "WHEN", "BY", "WHY", "CHANGES", "REASON"); err != nil {
		return err
	}
	rows := 0
	for v, err := range in.ledger.History(ctx) {
		if err != nil && v.Number == 0 {
			return err
		}
		if rows++; rows > in.limit {
			c.Note("There are more. --limit %d lists as many again.", 2*in.limit)
			break
		}
		line := SettingsVersion{Version: v.Number, Base: v.Base, BackTo: v.BackTo, Result: noResult(v.Number, now), At: act.Maybe(v.At), By: v.By, Why: v.Why, Changes: v.Changes}
		if e, ok := ended[v.Number]; ok {
			line.Result, line.Reasons = string(e.Result), e.Reasons
		}
		if err != nil {
			line.Error, line.Result = err.Error(), act.Corrupt
		}
		if err := c.Row(line, v.Number, line.Result, v.At, v.By, act.Short(v.Why), act.Short(changesOf(v)), reasonIn(line.Reasons)); err != nil {
			return err
		}
	}
	return nil
}

// reasonIn is the first of the reasons for a result, and how many others there are.
func reasonIn(all []settings.Refusal) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return act.Short(all[0].String())
	}
	return fmt.Sprintf("%s (and %d more)", act.Short(all[0].String()), len(all)-1)
}

// noResult tells why a version has no result.
func noResult(version int64, now settings.Current) string {
	switch {
	case now.Epoch == 0:
		return "unknown" // the document can't be read, which a note has said
	case version == now.Candidate && now.Rollout != nil:
		return string(settings.Rolling)
	case version == now.Candidate:
		return "checking"
	case len(now.Ended) > 0 && version < now.Ended[len(now.Ended)-1].Version:
		return "no longer kept"
	}
	return "not proposed"
}

// orDefault is a cell with a value that may not be set.
func orDefault(value json.RawMessage) string {
	if value == nil {
		return "default"
	}
	return string(value)
}

// changesOf tells people what a version has changed.
func changesOf(v settings.Version) string {
	var parts []string
	if v.BackTo != nil {
		parts = append(parts, fmt.Sprintf("back to %d", *v.BackTo))
	}
	for _, x := range v.Changes {
		parts = append(parts, fmt.Sprintf("%s %s→%s", x.Path, orDefault(x.From), orDefault(x.To)))
	}
	return strings.Join(parts, ", ")
}

// hasVersion is an error if there is no such version.
func (in *settingsInput) hasVersion(ctx context.Context, c *act.Call, version int64) error {
	if _, err := in.ledger.Version(ctx, version); errors.Is(err, storage.ErrNotFound) {
		return act.Nothing("settings %s have no version %d; %s settings history --of %s lists the versions", in.name, version, c.Command, in.name)
	}
	return nil // what else is wrong is told by those who need the version
}

// compareVersions lists what is different in two versions.
func compareVersions(ctx context.Context, c *act.Call, in *settingsInput) error {
	if in.to < 0 {
		now, err := in.ledger.Current(ctx)
		if err != nil {
			return err
		}
		in.to = now.Version
	}
	for _, v := range []int64{in.from, in.to} {
		if err := in.hasVersion(ctx, c, v); err != nil {
			return err
		}
	}
	all, err := in.ledger.Difference(ctx, in.from, in.to)
	if err != nil {
		return err
	}
	if err := c.Table(fmt.Sprintf("Versions %d and %d set the same.", in.from, in.to), "PATH", fmt.Sprintf("VERSION %d", in.from), fmt.Sprintf("VERSION %d", in.to)); err != nil {
		return err
	}
	for _, x := range all {
		if err := c.Row(x, x.Path, orDefault(x.From), orDefault(x.To)); err != nil {
			return err
		}
	}
	return nil
}
