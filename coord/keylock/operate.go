package keylock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// An Info describes a key to people. Its times are by the clocks of those who wrote them.
type Info struct {
	Key    string
	Held   bool   // by a process that may have died
	Holder string // the present or last one
	Fence  int64
	At     time.Time // of the last sign of the holder
	State  State
}

func infoOf(key string, d document) Info {
	return Info{Key: key, Held: d.ID != "", Holder: d.Holder, Fence: d.Fence, At: time.UnixMilli(d.At), State: d.State}
}

// List yields the keys of a group after a key, in their order. A row that is no turn is yielded as its key with an
// error that matches storage.ErrInvalid, and the list goes on. Any other error is the last.
func List(ctx context.Context, store *storage.Store, group, after string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := storecall.CheckStore(store); err != nil {
			yield(Info{}, fmt.Errorf("keylock: list: %w", err))
			return
		}
		from := ""
		if after != "" {
			from = after + "\x00"
		}
		for row, err := range store.Table(tableName).Query(ctx, group, storage.RowRange{From: from}) {
			if err != nil {
				yield(Info{}, fmt.Errorf("keylock: list: %w", err))
				return
			}
			info := Info{Key: row.Key}
			d, err := decode(row.Data)
			if err == nil {
				info = infoOf(row.Key, d)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// A Note tells who does something, and why.
type Note struct {
	By  string // required; at most 256 bytes
	Why string // at most 256 bytes
}

// Release lets a key go on that is halted, or that waits for a message. Others go past that message. It returns how the
// key was before. A key that neither is halted nor waits stays as it is: released is false. A key that never had a turn
// is storage.ErrNotFound. A turn that a process has isn't touched by it. A failed call is repeated twice; after an
// error the key may be released.
func Release(ctx context.Context, store *storage.Store, group, key string, note Note) (before Info, released bool, err error) {
	faults := []error{storecall.CheckStore(store), storage.CheckKey(group), storage.CheckKey(key), storecall.CheckText("By", note.By, maxText), storecall.CheckText("Why", note.Why, storecall.MaxWhy)}
	if note.By == "" {
		faults = append(faults, fmt.Errorf("%w: By is empty; say who releases the key", storage.ErrInvalid))
	}
	if err := errors.Join(faults...); err != nil {
		return Info{}, false, fmt.Errorf("keylock: release: %w", err)
	}
	ts, err := New(store, group, Config{})
	if err != nil {
		return Info{}, false, err
	}
	tried := false // a try before may have written
	for tries := 1; ; tries++ {
		var over bool
		over, err = ts.release(ctx, key, note, &before, tried)
		switch {
		case err == nil:
			return before, over, nil
		case storage.LostRace(err):
			tries--
		case ctx.Err() != nil, !isTrouble(err), tries >= 3:
			return before, false, ts.fail("release", key, err)
		default:
			tried = true
			_ = storecall.Sleep(ctx, time.Duration(tries)*100*time.Millisecond) // the next try sees the end of ctx
		}
	}
}

func (ts *Turns) release(ctx context.Context, key string, note Note, before *Info, tried bool) (released bool, err error) {
	d, etag, err := ts.get(ctx, key)
	if err != nil {
		return false, err
	}
	if !d.State.blocked() {
		if !tried {
			*before = infoOf(key, d)
		}
		return tried && d.State.Released != nil && d.State.Released.By == note.By, nil
	}
	*before = infoOf(key, d)
	d.State.release()
	d.State.Released = &Released{By: note.By, Why: note.Why, At: time.Now().UTC()}
	_, err = ts.put(ctx, key, d, etag)
	return err == nil, err
}
