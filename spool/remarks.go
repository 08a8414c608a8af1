package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// These containers have a blob for an entry, under its key: why the entry was set aside, and that an operator has
// discarded it.
const (
	refusals = "refused"
	discards = "discarded"
)

const mostReason = 300 // bytes of a text about a failure

// remarks are what the file has about entries, beside the entries.
type remarks struct {
	local *storage.Store
	log   *slog.Logger
}

// A discard is what an operator says about an entry.
type discard struct {
	By  string    `json:"by"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// noteRefusal notes why an entry was set aside, or with nil that it isn't any more. The remark is for List and Look.
func (r remarks) noteRefusal(ctx context.Context, e *entry, why error) {
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), localTime)
	defer cancel()
	if why == nil {
		_ = r.local.Blobs(refusals).Delete(ctx, e.key(), storage.Condition{}) // the next start removes it
		return
	}
	if _, err := r.local.Blobs(refusals).Put(ctx, e.key(), []byte(shorten(why.Error())), storage.Condition{}); err != nil {
		r.log.DebugContext(ctx, "why messages are set aside can't be noted", "error", err)
	}
}

// refused returns the keys of the entries that were set aside.
func (r remarks) refused(ctx context.Context) (map[string]bool, error) {
	keys := map[string]bool{}
	for b, err := range r.local.Blobs(refusals).List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		keys[b.Key] = true
	}
	return keys, nil
}

// refusal returns why an entry was set aside, or nothing.
func (r remarks) refusal(ctx context.Context, e *entry) string {
	why, err := r.local.Blobs(refusals).Get(ctx, e.key(), "")
	if err != nil {
		return ""
	}
	return string(why.Body)
}

// discard deletes an entry for good, and notes who does so.
func (r remarks) discard(ctx context.Context, key string, d discard) error {
	data, err := json.Marshal(d)
	if err == nil {
		_, err = r.local.Blobs(discards).Put(ctx, key, data, storage.Condition{})
	}
	if err == nil {
		err = r.local.Blobs(container).Delete(ctx, key, storage.Condition{})
	}
	if err == nil {
		err = r.local.Blobs(refusals).Delete(ctx, key, storage.Condition{})
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// tellDiscarded logs that an entry is gone from the file, and who has discarded it.
func (r remarks) tellDiscarded(ctx context.Context, e *entry) {
	ctx, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	var d discard
	b, err := r.local.Blobs(discards).Get(ctx, e.key(), "")
	if err != nil || json.Unmarshal(b.Body, &d) != nil {
		r.log.ErrorContext(ctx, "somebody has removed messages from the spool: they are not sent", "messages", e.messages)
		return
	}
	r.log.WarnContext(ctx, "an operator has discarded messages of the spool: they are not sent", "messages", e.messages, "by", d.By, "why", d.Why, "at", d.At)
	_ = r.local.Blobs(discards).Delete(ctx, e.key(), storage.Condition{}) // or the next start tells it again
}

// settle ends the remarks of an earlier run: it tells what was discarded while no program ran, and forgets why
// entries were set aside, because each is tried again.
func (r remarks) settle(ctx context.Context) error {
	for _, name := range []string{discards, refusals} {
		for b, err := range r.local.Blobs(name).List(ctx, "") {
			switch e, ok := parseKey(b.Key); {
			case err != nil:
				return fmt.Errorf("spool: %w", err)
			case ok && name == discards && r.isOut(ctx, b.Key):
				r.tellDiscarded(ctx, &e)
			default:
				_ = r.local.Blobs(name).Delete(ctx, b.Key, storage.Condition{}) // the entry itself counts
			}
		}
	}
	return nil
}

// isOut reports that an entry is not in the file: an operator's process may have ended before it was.
func (r remarks) isOut(ctx context.Context, key string) bool {
	_, err := r.local.Blobs(container).Get(ctx, key, "")
	return errors.Is(err, storage.ErrNotFound)
}

func shorten(reason string) string {
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "") + "…"
	}
	return reason
}
