package spool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// container is the container of the entries. Each of its blobs has the envelopes of one Send.
const container = "spool"

const (
	localTime    = 10 * time.Second // bounds a call of the file
	mostErasures = 32               // how many entries are deleted at a time
)

// A file keeps the entries of a spool on the disk: an SQLite database, with a lock against other programs.
type file struct {
	path    string       // without links
	log     *slog.Logger // names the path
	local   *storage.Store
	blobs   *storage.Blobs // of the entries
	remarks remarks
	lock    *lock       // nil for a file that is open for a moment, and in tests
	opened  os.FileInfo // the file that was opened
}

// openFile opens the file of a spool for its program, and makes the file and its folder where they are missing.
func openFile(ctx context.Context, path string, log *slog.Logger) (*file, error) {
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	if err := refuseForeign(ctx, path); err != nil {
		return nil, err
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	local, err := sqlite.OpenSpool(ctx, "sqlite:"+path+"?wake=off", log, false)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("spool: %w", err), lock.close())
	}
	f, err := newFile(path, local, log)
	if err != nil {
		return nil, errors.Join(err, local.Close(), lock.close())
	}
	f.lock = lock
	return f, nil
}

// newFile returns the file that is open as a store.
func newFile(path string, local *storage.Store, log *slog.Logger) (*file, error) {
	opened, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("spool: %w: %w", storage.ErrUnavailable, err)
	}
	log = log.With("spool", path)
	return &file{path: path, log: log, local: local, blobs: local.Blobs(container), remarks: remarks{local, log}, opened: opened}, nil
}

// realPath returns the path of a file, which need not be there, without links. So the file has one lock,
// although several names may lead to the file.
func realPath(path string) (string, error) {
	if path == "" || strings.Contains(path, "?") { // it would begin the parameters of the driver
		return "", fmt.Errorf("spool: %w: path %s: want that of a file, without a question mark", storage.ErrInvalid, storage.Quote(path))
	}
	if _, err := sqlite.File("sqlite:" + path); err != nil {
		return "", fmt.Errorf("spool: %w", err)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("spool: %w: path %s: %w", storage.ErrInvalid, storage.Quote(path), err)
	}
	if real, err := filepath.EvalSymlinks(whole); err == nil {
		return real, nil
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(whole)); err == nil {
		return filepath.Join(folder, filepath.Base(whole)), nil
	}
	return whole, nil
}

// refuseForeign refuses a file that is no spool, before a lock file is made beside it. It leaves to the opening for use
// what else may be wrong.
func refuseForeign(ctx context.Context, path string) error {
	err := withFile(ctx, path, func(*file) error { return nil })
	if errors.Is(err, storage.ErrInvalid) {
		return err
	}
	return nil
}

// withFile opens the file of a spool for a moment and without its lock, and leaves an empty file as it is.
func withFile(ctx context.Context, path string, do func(f *file) error) (err error) {
	real, err := realPath(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("spool: %w", err)
	case info.Size() == 0:
		return nil // the driver would make a database of it
	}
	quiet := slog.New(slog.DiscardHandler)
	local, err := sqlite.OpenSpool(ctx, "sqlite:"+real+"?wake=off", quiet, true)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	f, err := newFile(real, local, quiet)
	if err != nil {
		return err
	}
	return do(f)
}

// close closes the file, and leaves it to other programs.
func (f *file) close() error { return errors.Join(f.local.Close(), f.lock.close()) }

// hold returns an error if another program may have the file.
func (f *file) hold() error { return f.lock.hold() }

// isGone reports that the file was removed or replaced.
func (f *file) isGone() bool { return isGone(f.path, f.opened) }

// mostBytes is how large an entry may be.
func (f *file) mostBytes() int { return f.local.Props().MaxBlob }

// entries lists the entries in the file, the oldest first.
func (f *file) entries(ctx context.Context) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		for b, err := range f.blobs.List(ctx, "") {
			if err != nil {
				yield(nil, fmt.Errorf("spool: %w", err))
				return
			}
			e, ok := parseKey(b.Key)
			if !ok {
				yield(nil, fmt.Errorf("spool: %w: %s is not a spool, or one of a newer version: it has a blob %s", storage.ErrInvalid, storage.Quote(f.path), storage.Quote(b.Key)))
				return
			}
			e.size, e.at = b.Size, b.Modified
			if !yield(&e, nil) {
				return
			}
		}
	}
}

// writeTime is how long a Send waits for its write to the file, which another tool may have locked: as long as for the
// store, and a second more for each 8 MiB, within localTime.
func writeTime(size int) time.Duration {
	return min(storeTime+time.Duration(size>>23)*time.Second, localTime)
}

// write writes an entry. On nil the entry is durable. storage.ErrExists means that the key has an entry already. After
// any other error the write may have had its effect.
func (f *file) write(ctx context.Context, e *entry, body []byte) error {
	limited, cancel := storecall.Limit(ctx, writeTime(len(body)))
	defer cancel()
	_, err := f.blobs.Put(limited, e.key(), body, storage.Condition{IfAbsent: true})
	return err
}

// read returns the envelopes of an entry. The error matches storage.ErrNotFound if the entry isn't in the file, and
// errDamaged if the disk has damaged the entry.
func (f *file) read(ctx context.Context, e *entry) ([]wire.Envelope, error) {
	b, err := f.blobs.Get(ctx, e.key(), "")
	if err != nil {
		return nil, err
	}
	return e.decode(b.Body)
}

// erase deletes entries. It returns the entries that aren't in the file any more, and the entries that may still be
// there, with an error of one of their deletions.
func (f *file) erase(ctx context.Context, all []*entry) (erased, left []*entry, err error) {
	limited, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	failed := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(mostErasures)
	for i, e := range all {
		g.Go(func() error {
			failed[i] = f.blobs.Delete(limited, e.key(), storage.Condition{})
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	for i, e := range all {
		if failed[i] != nil && !errors.Is(failed[i], storage.ErrNotFound) {
			left, err = append(left, e), failed[i]
			continue
		}
		erased = append(erased, e)
	}
	return erased, left, err
}

// probe writes so many bytes to the file, and removes them.
func (f *file) probe(ctx context.Context, size int) error {
	ctx, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	probes := f.local.Blobs("probe")
	if _, err := probes.Put(ctx, "probe", make([]byte, size), storage.Condition{}); err != nil {
		return err
	}
	return probes.Delete(ctx, "probe", storage.Condition{})
}
