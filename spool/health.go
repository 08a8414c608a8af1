package spool

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

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

// A health is whether the file can be used.
type health struct {
	file   *file
	index  *index
	log    *slog.Logger
	wake   bell                    // of Run, which publishes a change
	failed atomic.Pointer[failure] // while the file can't be written
}

// watch looks after the file until ctx ends.
func (h *health) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.look(ctx)
		case <-h.index.doubtful:
			_ = h.index.resolve(ctx) // a failure shows at the next look
		case <-ctx.Done():
			return
		}
	}
}

// look finds out whether the file is in its place, and resolves what is in doubt. A file that has failed must also take
// a write of the same size.
func (h *health) look(ctx context.Context) {
	err := h.file.hold()
	if err == nil && h.file.isGone() {
		err = errGone
	}
	size := 0
	if f := h.failed.Load(); f != nil {
		size = f.size
	}
	if err == nil {
		err = h.index.resolve(ctx)
	}
	if f := h.failed.Load(); err == nil && f != nil {
		err = h.file.probe(ctx, f.size)
	}
	switch {
	case ctx.Err() != nil: // it says nothing
	case err == nil:
		h.mended(ctx)
	default:
		_ = h.fails(ctx, err, size) // the log tells
	}
}

// hold returns a failure if another program may have the file, before a write of so many bytes.
func (h *health) hold(ctx context.Context, size int) error {
	if err := h.file.hold(); err != nil {
		return h.fails(ctx, err, size)
	}
	return nil
}

// fails notes that the file has failed, with how many bytes were to be written, and returns the failure.
func (h *health) fails(ctx context.Context, err error, size int) error {
	f := &failure{"its file can't be written; the log says why", err, size}
	switch {
	case h.file.isGone():
		f.brief = "its file was removed or replaced; put it back and start this program again"
	case errors.Is(err, ErrInUse):
		f.brief = "another program has its file; give each its own"
	}
	if h.failed.Swap(f) == nil {
		h.log.ErrorContext(ctx, "the spool takes nothing: "+f.brief, "messages", h.index.waits.Load(), "error", err)
		h.wake.ring() // for the report
	}
	return f
}

// mended notes that the file can be written.
func (h *health) mended(ctx context.Context) {
	if h.failed.Load() != nil && h.failed.Swap(nil) != nil {
		h.log.InfoContext(ctx, "the spool takes messages again")
		h.wake.ring()
	}
}

// failure returns why the file can't be used, or nil.
func (h *health) failure() error {
	if f := h.failed.Load(); f != nil {
		return f
	}
	return nil
}

// takes returns why the spool takes no further message, or nil. Everybody may read its text.
func (h *health) takes() error {
	if f := h.failed.Load(); f != nil {
		return errors.New(f.brief)
	}
	return h.index.room()
}
