package acts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/tuning"
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
	veilChanges(c, now)
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
			c.Next("limit", fmt.Sprint(2*in.limit))
			break
		}
		line := SettingsVersion{Version: v.Number, Base: v.Base, BackTo: v.BackTo, Result: tuning.NoResult(v.Number, now), At: act.Maybe(v.At), By: v.By, Why: v.Why, Changes: v.Changes}
		if e, ok := ended[v.Number]; ok {
			line.Result, line.Reasons = string(e.Result), e.Reasons
		}
		if err != nil {
			line.Error, line.Result = err.Error(), act.Corrupt
		}
		if err := c.Row(line, v.Number, line.Result, v.At, v.By, act.Short(v.Why), act.Short(tuning.Changes(v)), tuning.FirstReason(line.Reasons)); err != nil {
			return err
		}
	}
	return nil
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
		if err := c.Row(x, x.Path, tuning.OrDefault(x.From), tuning.OrDefault(x.To)); err != nil {
			return err
		}
	}
	return nil
}
