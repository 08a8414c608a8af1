package tuning

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// Names returns the names of all settings of a store, as far as they have been set.
func Names(ctx context.Context, d *act.Desk) (names []string, err error) {
	for name, err := range settings.Names(ctx, d.Store) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// Which returns the name of the settings that somebody means. of is the name that was given, or empty.
func Which(ctx context.Context, d *act.Desk, of string) (string, error) {
	if name := cmp.Or(of, d.Settings); name != "" {
		return name, nil
	}
	names, err := Names(ctx, d)
	if err == nil && len(names) > 1 {
		names, err = inUse(ctx, d, names)
	}
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", act.Nothing("nobody has set anything yet; name the settings of a program by --of NAME, which for most is the program's name")
	case len(names) > 1:
		return "", act.Usage("there are several settings: add --of with one of %s", strings.Join(names, ", "))
	}
	return names[0], nil
}

// There says if nobody has set the settings that a ledger keeps, and no program has them. Where nobody has set
// anything, they may be some that will be set.
func There(ctx context.Context, d *act.Desk, l *settings.Ledger, name string) error {
	names, err := Names(ctx, d)
	if err != nil || len(names) == 0 || slices.Contains(names, name) {
		return err
	}
	nodes, err := l.Nodes(ctx)
	if err != nil || len(nodes) > 0 {
		return err
	}
	for range l.History(ctx) {
		return nil // what is in force is lost, and the versions aren't
	}
	return act.Nothing("there are no settings %s: nobody has set any, and no program that has them runs; there are %s", name, strings.Join(names, ", "))
}

// inUse leaves out settings that no program has and whose values are all the programs' defaults again: somebody has
// forced a change under a misspelt name, and taken it back. If no others are left, it returns all.
func inUse(ctx context.Context, d *act.Desk, all []string) (names []string, err error) {
	for _, name := range all {
		l, err := settings.At(d.Store, name)
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
