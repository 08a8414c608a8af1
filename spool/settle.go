package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// These containers have a blob for an entry, under its key: why it was set aside, and that an operator has discarded
// it.
const (
	refusals = "refused"
	discards = "discarded"
)

// An Entry is what one Send has left in the file of a spool.
type Entry struct {
	ID       string // for Discard
	Kept     time.Time
	Bytes    int64
	Messages []Message
	Refused  string // why it was set aside, and empty if it waits
}

// A Message is one of an entry.
type Message struct {
	ID   string
	Kind channel.Kind
}

// List lists what is in the file of a spool, the oldest first, whether a program has it open or not. An entry that
// can't be read has no messages. Without a file the error matches fs.ErrNotExist.
func List(ctx context.Context, path string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := withFile(ctx, path, func(file string, local *storage.Store) error {
			for b, err := range local.Blobs(container).List(ctx, "") {
				if err != nil {
					return fmt.Errorf("spool: %w", err)
				}
				at, ok := parseKey(b.Key)
				if !ok {
					return notASpool(file, b.Key)
				}
				e := Entry{ID: strconv.FormatUint(at.seq, 10), Kept: b.Modified, Bytes: b.Size}
				e.Messages, err = messagesOf(ctx, local, b.Key)
				if errors.Is(err, errDamaged) {
					e.Refused, err = err.Error(), nil
				}
				if why, found := local.Blobs(refusals).Get(ctx, b.Key, ""); found == nil {
					e.Refused = string(why.Body)
				}
				switch {
				case errors.Is(err, storage.ErrNotFound): // it was sent meanwhile
				case err != nil:
					return fmt.Errorf("spool: %w", err)
				case !yield(e, nil):
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

func messagesOf(ctx context.Context, local *storage.Store, key string) (all []Message, err error) {
	b, err := local.Blobs(container).Get(ctx, key, "")
	if err != nil {
		return nil, err
	}
	en, _ := parseKey(key)
	envelopes, err := en.decode(b.Body)
	for _, e := range envelopes {
		all = append(all, Message{e.ID, e.Kind})
	}
	return all, err
}

// A discard is what an operator says about an entry.
type discard struct {
	By  string    `json:"by"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Discard removes an entry for good: its messages are never sent. A program that has the file open finds that out at
// its next try, and may have sent them at this moment. Its log, or that of the next one, tells by and why. Without such
// an entry the error matches storage.ErrNotFound.
func Discard(ctx context.Context, path, id, by, why string) error {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return fmt.Errorf("spool: %w: %s is not the ID of an entry", storage.ErrInvalid, storage.Quote(id))
	}
	found := false
	err = withFile(ctx, path, func(_ string, local *storage.Store) error {
		for b, err := range local.Blobs(container).List(ctx, fmt.Sprintf("%020d.", seq)) {
			if err != nil {
				return err
			}
			data, err := json.Marshal(discard{by, why, time.Now()})
			if err == nil {
				_, err = local.Blobs(discards).Put(ctx, b.Key, data, storage.Condition{})
			}
			if err == nil {
				err = local.Blobs(container).Delete(ctx, b.Key, storage.Condition{})
			}
			if err == nil {
				err = local.Blobs(refusals).Delete(ctx, b.Key, storage.Condition{})
			}
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			found = true
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("spool: discard: %w", err)
	case !found:
		return fmt.Errorf("spool: entry %s: %w", id, storage.ErrNotFound)
	}
	return nil
}

// remarks are what the file has beside the entries.
type remarks struct {
	local *storage.Store
	path  string
	log   *slog.Logger
}

// tellDiscarded logs that an entry is gone from the file, and who has discarded it.
func (n remarks) tellDiscarded(ctx context.Context, key string, messages int64) {
	ctx, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	var d discard
	b, err := n.local.Blobs(discards).Get(ctx, key, "")
	if err != nil || json.Unmarshal(b.Body, &d) != nil {
		n.log.ErrorContext(ctx, "somebody has removed messages from the spool: they are not sent", "spool", n.path, "messages", messages)
		return
	}
	n.log.WarnContext(ctx, "an operator has discarded messages of the spool: they are not sent", "spool", n.path, "messages", messages, "by", d.By, "why", d.Why, "at", d.At)
	_ = n.local.Blobs(discards).Delete(ctx, key, storage.Condition{}) // or the next start tells it again
}

// open reads the remarks: it tells what was discarded while no program ran, and forgets why
// entries were set aside, because each is tried again.
func (n remarks) open(ctx context.Context) error {
	for _, name := range []string{discards, refusals} {
		for b, err := range n.local.Blobs(name).List(ctx, "") {
			switch e, ok := parseKey(b.Key); {
			case err != nil:
				return fmt.Errorf("spool: %w", err)
			case ok && name == discards && n.isOut(ctx, b.Key):
				n.tellDiscarded(ctx, b.Key, e.messages)
			default:
				_ = n.local.Blobs(name).Delete(ctx, b.Key, storage.Condition{}) // the entry itself counts
			}
		}
	}
	return nil
}

// isOut reports that an entry is not in the file: an operator's process may have ended before it was.
func (n remarks) isOut(ctx context.Context, key string) bool {
	_, err := n.local.Blobs(container).Get(ctx, key, "")
	return errors.Is(err, storage.ErrNotFound)
}

// noteRefusal notes in the file why an entry was set aside, or that it isn't any more. It is for List and Look.
func (n remarks) noteRefusal(ctx context.Context, e *entry, why error) {
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), localTime)
	defer cancel()
	if why == nil {
		_ = n.local.Blobs(refusals).Delete(ctx, e.key(), storage.Condition{}) // the next start removes it
		return
	}
	if _, err := n.local.Blobs(refusals).Put(ctx, e.key(), []byte(shorten(why.Error())), storage.Condition{}); err != nil {
		n.log.DebugContext(ctx, "why messages are set aside can't be noted", "spool", n.path, "error", err)
	}
}
