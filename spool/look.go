package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Look returns what is in the file of a spool, whether a program has it open or not. It changes nothing, and doesn't
// know what was set aside: that waits, too. Without a file the error matches fs.ErrNotExist.
func Look(ctx context.Context, path string) (st State, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return st, fmt.Errorf("spool: %w", err)
	case info.Size() == 0:
		return st, nil // the driver would make a database of it
	}
	file, err := filepath.Abs(path)
	if err != nil || strings.Contains(path, "?") {
		return st, fmt.Errorf("spool: %w: path %s: want that of a file, without a question mark", storage.ErrInvalid, storage.Quote(path))
	}
	local, err := sqlite.WithLogger(slog.New(slog.DiscardHandler))(ctx, "sqlite:"+file+"?wake=off")
	if err != nil {
		return st, fmt.Errorf("spool: %w", err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	for b, err := range local.Blobs(container).List(ctx, "") {
		if err != nil {
			return st, fmt.Errorf("spool: %w", err)
		}
		e, ok := parseKey(b.Key)
		if !ok {
			return st, notASpool(file, b.Key)
		}
		if st.Oldest.IsZero() {
			st.Oldest = b.Modified
		}
		st.Waiting, st.Bytes = st.Waiting+e.messages, st.Bytes+b.Size
	}
	return st, nil
}

func notASpool(file, key string) error {
	return fmt.Errorf("spool: %w: %s is not a spool, or one of a newer version: it has a blob %s", storage.ErrInvalid, storage.Quote(file), storage.Quote(key))
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
