package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// settingsHistory prints the versions.
func settingsHistory(ctx context.Context, call *call) error {
	c, err := foundLedger(ctx, call)
	if err != nil {
		return err
	}
	now, err := c.ledger.Current(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(boot.AsTyped(err, c.Command).Error())) // the versions can be read all the same
	}
	ended := map[int64]settings.Ending{}
	for _, e := range now.Ended {
		ended[e.Version] = e
	}
	var rows [][]string
	for v, err := range c.ledger.History(ctx) {
		if err != nil && v.Number == 0 {
			return err
		}
		if len(rows) == c.limit {
			_, _ = fmt.Fprintf(c.progress, "Note: there are more. -limit %d lists as many again.\n", 2*c.limit)
			break
		}
		line := settingsVersionLine{Version: v.Number, Base: v.Base, BackTo: v.BackTo, Result: noResult(v.Number, now), At: maybe(v.At), By: v.By, Why: v.Why, Changes: v.Changes}
		if e, ok := ended[v.Number]; ok {
			line.Result, line.Reasons = string(e.Result), e.Reasons
		}
		if err != nil {
			line.Error, line.Result = err.Error(), corrupt
		}
		rows = append(rows, []string{strconv.FormatInt(v.Number, 10), line.Result, ago(v.At), orUnknown(v.By), short(orUnknown(v.Why)), short(changesOf(v)), orUnknown(reasonIn(line.Reasons))})
		if c.json {
			if err := c.out.line(line); err != nil {
				return err
			}
		}
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("No versions: nobody has set anything.\n")
	default:
		c.out.table([]string{"VERSION", "RESULT", "WHEN", "BY", "WHY", "CHANGES", "REASON"}, rows)
	}
	return nil
}

// reasonIn is the first of the reasons for a result, and how many others there are.
func reasonIn(all []settings.Refusal) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return short(all[0].String())
	}
	return fmt.Sprintf("%s (and %d more)", short(all[0].String()), len(all)-1)
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

func (c settingsCall) noVersion(version int64) error {
	return nothing("settings %s have no version %d; %s settings history -of %s lists the versions", c.name, version, c.Command, c.name)
}

// settingsDiff prints what is different in two versions.
func settingsDiff(ctx context.Context, call *call) error {
	c, err := foundLedger(ctx, call)
	if err != nil {
		return err
	}
	versions := make([]int64, 2)
	for i, arg := range c.args {
		if versions[i], err = strconv.ParseInt(arg, 10, 64); err != nil {
			return err
		}
	}
	if len(c.args) == 1 {
		now, err := c.ledger.Current(ctx)
		if err != nil {
			return err
		}
		versions[1] = now.Version
	}
	for _, v := range versions {
		if _, err := c.ledger.Version(ctx, v); errors.Is(err, storage.ErrNotFound) {
			return c.noVersion(v)
		}
	}
	all, err := c.ledger.Difference(ctx, versions[0], versions[1])
	if err != nil {
		return err
	}
	var rows [][]string
	for _, x := range all {
		if c.json {
			if err := c.out.line(x); err != nil {
				return err
			}
		}
		rows = append(rows, []string{x.Path, orDefault(x.From), orDefault(x.To)})
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("Versions %d and %d set the same.\n", versions[0], versions[1])
	default:
		c.out.table([]string{"PATH", fmt.Sprintf("VERSION %d", versions[0]), fmt.Sprintf("VERSION %d", versions[1])}, rows)
	}
	return nil
}
