package lease

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// Do waits for the lease as [Acquire] does, calls f, and releases the lease when f has ended in any way: a panic and a
// runtime.Goexit go on after the release. ctx of f is the lease's context.
//
// The error is f's. If the lease was lost before f returned, the error is also [ErrLost]: f may have run beside the
// next holder for a while. A release that fails is logged, and the lease is free 7/6 of the TTL later.
func Do(ctx context.Context, store *storage.Store, name string, cfg Config, f func(ctx context.Context, l *Lease) error) error {
	if f == nil {
		return fmt.Errorf("lease: do %s: %w: no function", storage.Quote(name), storage.ErrInvalid)
	}
	return do(ctx, store, name, cfg, func(l *Lease) error { return f(l.ctx, l) })
}

func do(ctx context.Context, store *storage.Store, name string, cfg Config, f func(l *Lease) error) error {
	l, err := Acquire(ctx, store, name, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err := l.Release(ctx); err != nil {
			l.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't release a lease; others get it later", slog.Any("error", err))
		}
	}()
	err = contain.Sound(f(l))
	if why := context.Cause(l.ctx); errors.Is(why, ErrLost) && !errors.Is(err, ErrLost) {
		err = errors.Join(err, fmt.Errorf("lease: %s: %w", storage.Quote(name), why))
	}
	return err
}

// Update changes one document exclusively: it takes the lease "update/CONTAINER/KEY", reads the document, calls f with
// the content (nil: there is no document), writes the content that f returns, and releases the lease. If f returns nil
// or an error, the document stays as it is. An error of f is the error of Update.
//
// The document is in the form of [Lease.Blobs]; others read it by [Read]. The write is guarded by the state that f
// has got, so it is right even if another holder wrote meanwhile, whose proof had ended: then f is called again with
// the new content. f is never run by two processes at once while their leases are held. After an error other than f's
// and ErrFenced, the write may have been done.
func Update(ctx context.Context, store *storage.Store, container, key string, cfg Config, f func(ctx context.Context, old []byte) ([]byte, error)) error {
	fail := func(err error) error {
		return fmt.Errorf("lease: update %s: %w", storage.Quote(container+"/"+key), err)
	}
	err := errors.Join(storecall.CheckStore(store), storage.CheckName(container), storage.CheckKey(key))
	switch {
	case err != nil:
	case f == nil:
		err = fmt.Errorf("%w: no function", storage.ErrInvalid)
	case slices.Contains([]string{"leases", "gates", "counters", "quorum"}, container):
		err = fmt.Errorf("%w: the container belongs to the packages of coordination; use one of your own", storage.ErrInvalid)
	}
	if err != nil {
		return fail(err)
	}
	cfg.label = "update/" + container
	return do(ctx, store, updateName(container, key), cfg, func(l *Lease) error {
		docs := l.Blobs(store.Blobs(container))
		for {
			cond := storage.Condition{}
			there, err := docs.Get(l.ctx, key)
			switch {
			case err == nil:
				cond.IfMatch = there.ETag
			case errors.Is(err, storage.ErrNotFound):
				cond.IfAbsent = true
			default:
				return fail(err)
			}
			content, err := f(l.ctx, there.Content)
			if err != nil || content == nil {
				return err
			}
			_, err = docs.Put(l.ctx, key, content, cond)
			switch {
			case err == nil:
				return nil
			case !storage.LostRace(err) || errors.Is(err, storage.ErrUnavailable):
				return fail(err)
			}
		}
	})
}

// updateName is the name of the lease on a document. A key that is too long is named by its hash.
func updateName(container, key string) string {
	name := "update/" + container + "/" + key
	if len(name) > storage.MaxKey {
		return fmt.Sprintf("update/%s/%x", container, sha256.Sum256([]byte(key)))
	}
	return name
}
