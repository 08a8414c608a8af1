package spool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// Look returns what is in the file of a spool, whether a program has it open or not. It changes nothing. An entry that
// was set aside counts as refused until the next start tries it again. Without a file the error matches fs.ErrNotExist.
func Look(ctx context.Context, path string) (st State, err error) {
	err = withFile(ctx, path, func(f *file) error {
		its, err := f.owner(ctx)
		if err != nil {
			return err
		}
		st.Program, st.Store = its.Program, its.Store
		aside, err := f.remarks.refused(ctx)
		if err != nil {
			return err
		}
		for e, err := range f.entries(ctx) {
			if err != nil {
				return err
			}
			st.Bytes += e.size
			switch {
			case aside[e.key()]:
				st.Refused += e.messages
				continue
			case st.Waiting == 0:
				st.Oldest = e.at
			}
			st.Waiting += e.messages
		}
		return nil
	})
	return st, err
}

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
		err := withFile(ctx, path, func(f *file) error {
			for e, err := range f.entries(ctx) {
				if err != nil {
					return err
				}
				shown, err := show(ctx, f, e)
				switch {
				case errors.Is(err, storage.ErrNotFound): // it was sent meanwhile
				case err != nil:
					return fmt.Errorf("spool: %w", err)
				case !yield(shown, nil):
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

// show returns what an operator sees of an entry.
func show(ctx context.Context, f *file, e *entry) (Entry, error) {
	shown := Entry{ID: strconv.FormatUint(e.seq, 10), Kept: e.at, Bytes: e.size}
	envelopes, err := f.read(ctx, e)
	if errors.Is(err, errDamaged) {
		shown.Refused, err = err.Error(), nil
	}
	for _, one := range envelopes {
		shown.Messages = append(shown.Messages, Message{one.ID, one.Kind})
	}
	if why := f.remarks.refusal(ctx, e); why != "" {
		shown.Refused = why
	}
	return shown, err
}

// Discard removes an entry for good: its messages are never sent. A program that has the file open may be sending the
// messages at this moment, and otherwise learns of the removal at its next try. The log of that program, or of the next
// program that opens the file, tells by and why. Without such an entry the error matches storage.ErrNotFound.
func Discard(ctx context.Context, path, id, by, why string) error {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return fmt.Errorf("spool: %w: %s is not the ID of an entry", storage.ErrInvalid, storage.Quote(id))
	}
	found := false
	err = withFile(ctx, path, func(f *file) error {
		for b, err := range f.blobs.List(ctx, fmt.Sprintf("%020d.", seq)) {
			if err == nil {
				err = f.remarks.discard(ctx, b.Key, discard{by, why, time.Now()})
			}
			if err != nil {
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

// Release makes the file of a spool nobody's: the next program that opens the file becomes the owner of the file and
// its messages. Release a file after a program's name or the place of the store has changed. The error matches
// [ErrInUse] while a program has the file open, and fs.ErrNotExist without a file.
func Release(ctx context.Context, path string) error {
	return withFile(ctx, path, func(f *file) error {
		lock, err := lockFile(f.path)
		if err == nil {
			err = errors.Join(f.disclaim(ctx), lock.close())
		}
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		return nil
	})
}
