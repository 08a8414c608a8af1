package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// lookEvery is how often Run looks after the file.
const lookEvery = 10 * time.Second

// A failure says why the file can't be used.
type failure struct {
	brief string // for everybody: without a path
	err   error
	size  int // of what couldn't be written
}

func (f *failure) Error() string   { return "spool: " + f.brief + ": " + f.err.Error() }
func (f *failure) Unwrap() []error { return []error{storage.ErrUnavailable, f.err} }

var errGone = errors.New("stop the program, put the file back with the -wal that belongs to it, and start the program again; without it the messages that wait in it are lost")

// watch looks after the file until ctx ends.
func (s *Spool) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.look(ctx)
		case <-s.doubtful:
			_ = s.resolve(ctx) // a failure shows at the next look
		case <-ctx.Done():
			return
		}
	}
}

// look finds out whether the file is in its place, and resolves what is in doubt. A file that has failed must also take
// a write of the same size.
func (s *Spool) look(ctx context.Context) {
	err := s.lock.hold()
	if err == nil && isGone(s.path, s.info) {
		err = errGone
	}
	size := 0
	if f := s.failed.Load(); f != nil {
		size = f.size
	}
	if err == nil {
		err = s.resolve(ctx)
	}
	if f := s.failed.Load(); err == nil && f != nil {
		err = probe(ctx, s.local, f.size)
	}
	switch {
	case ctx.Err() != nil: // it says nothing
	case err == nil:
		s.mended(ctx)
	default:
		_ = s.fails(ctx, err, size) // the log tells
	}
}

// probe writes so many bytes to the file, and removes them.
func probe(ctx context.Context, local *storage.Store, size int) error {
	ctx, cancel := storecall.Limit(ctx, localTime)
	defer cancel()
	probes := local.Blobs("probe")
	if _, err := probes.Put(ctx, "probe", make([]byte, size), storage.Condition{}); err != nil {
		return err
	}
	return probes.Delete(ctx, "probe", storage.Condition{})
}

// isGone reports that a path leads to another file than once, or to none. An error of another kind says nothing
// about that.
func isGone(path string, file os.FileInfo) bool {
	there, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(there, file)
}

// fails notes that the file has failed, with how many bytes were to be written, and returns the failure.
func (s *Spool) fails(ctx context.Context, err error, size int) error {
	f := &failure{"its file can't be written; the log says why", err, size}
	switch {
	case isGone(s.path, s.info):
		f.brief = "its file was removed or replaced; put it back and start this program again"
	case errors.Is(err, ErrInUse):
		f.brief = "another program has its file; give each its own"
	}
	if s.failed.Swap(f) == nil {
		s.cfg.Logger.ErrorContext(ctx, "the spool takes nothing: "+f.brief, "spool", s.path, "messages", s.Waiting(), "error", err)
		s.ring() // for the report
	}
	return f
}

// mended notes that the file can be written.
func (s *Spool) mended(ctx context.Context) {
	if s.failed.Load() != nil && s.failed.Swap(nil) != nil {
		s.cfg.Logger.InfoContext(ctx, "the spool takes messages again", "spool", s.path)
		s.ring()
	}
}

// Takes returns why the spool takes no further message, or nil. Everybody may read its text.
func (s *Spool) Takes() error {
	st := s.count()
	switch f := s.failed.Load(); {
	case f != nil:
		return errors.New(f.brief)
	case st.full:
		return errors.New("it is full")
	case !st.Oldest.IsZero() && time.Since(st.Oldest) > s.cfg.MaxAge:
		return fmt.Errorf("its oldest message has waited for more than %v", s.cfg.MaxAge)
	}
	return nil
}
