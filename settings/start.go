package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const startFor = 10 * time.Second // for the first look

// begin finds out what the node runs first: what the store says, or else the cache.
func (f *follower) begin(ctx context.Context) error {
	err := f.firstLook(ctx)
	if err == nil && f.seen.etag != "" {
		return f.enter(ctx)
	}
	kept, fault := load(f.cfg.Cache, f.book.name)
	if fault == nil && kept.Version == 0 && err == nil {
		fault = errNoCache // it says what the store says: nobody has set anything
	}
	if fault == nil {
		fault = f.node.code.begin(kept.Version, kept.Values)
	}
	switch {
	case fault == nil:
		if err == nil {
			err = errGoneSince
		}
		f.node.starts(kept.Epoch, FromCache, err.Error())
		f.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "starting with the cached settings", slog.Int64("version", kept.Version), slog.Any("error", err))
	case err == nil && errors.Is(fault, errNoCache), err != nil && f.cfg.Offline && !errors.Is(err, storage.ErrInvalid):
		if fault := f.node.code.begin(0, []byte("{}")); fault != nil {
			return fmt.Errorf("the defaults: %w", fault)
		}
		f.node.starts(0, FromDefaults, "")
		if err != nil {
			f.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "starting with the default settings", slog.Any("error", errors.Join(err, fault)))
		}
	case err == nil, errors.Is(err, storage.ErrInvalid): // the store does answer, and err says what to do
		return errors.Join(err, fault)
	default:
		return errors.Join(err, fmt.Errorf("%w; start the program while the store answers, or let it start with the defaults (settings.Config.Offline)", fault))
	}
	if err == nil {
		if f.node.source == FromDefaults && f.cfg.Cache != "" { // for a start while the store is away
			f.node.cache(ctx, cached{Name: f.book.name, Values: json.RawMessage("{}")})
		}
		f.node.beat(ctx)
		if f.node.join(ctx, &f.seen); f.node.source == FromDefaults && f.seen.etag != "" { // the document was written meanwhile
			return f.enter(ctx)
		}
	}
	f.node.publish(err == nil)
	return nil
}

// firstLook reads the current document. It tries again while the store doesn't answer.
func (f *follower) firstLook(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startFor, fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, startFor))
	defer cancel()
	for {
		err := f.book.readKnown(ctx, &f.seen)
		if err == nil || storecall.Permanent(err) || storecall.Sleep(ctx, soon) != nil {
			return err
		}
	}
}

// enter runs the version in force in a node that starts, until no candidate can come into force without its answer. It
// is an error if it can't run that version.
func (f *follower) enter(ctx context.Context) error {
	for {
		d := f.seen.doc
		if err := f.node.code.begin(d.Stable, d.Values); err != nil {
			err = fmt.Errorf("version %d is in force, and this program can't run it; go back by \"settings back --of %s\", set what fits it, or start a program that can: %w", d.Stable, f.book.name, err)
			if !f.node.beaten.IsZero() {
				_ = f.book.remove(ctx, f.node.id) // else others wait for it until it counts as dead
			}
			return err
		}
		f.node.starts(d.Epoch, FromStore, "")
		f.node.keep(ctx, d)
		f.node.beat(ctx) // whoever proposes a change from now on asks this node
		if f.node.join(ctx, &f.seen); f.seen.etag == "" || f.seen.doc.Stable == d.Stable {
			f.node.publish(true)
			return nil
		}
	}
}
