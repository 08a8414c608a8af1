// Package shelf is a driver that somebody else has written: a folder that holds one SQLite file. It can be locked.
package shelf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Driver opens the folders that URLs with "shelf:" name.
var Driver = storage.Driver{Scheme: "shelf", Usage: "shelf:FOLDER is a folder that can be locked.", Open: open}

func open(ctx context.Context, folder string, cfg storage.OpenConfig) (*storage.Store, error) {
	if folder == "" {
		return nil, fmt.Errorf("%w: no folder; want one like shelf:data", storage.ErrInvalid)
	}
	inner, err := sqlite.Driver.Open(ctx, filepath.Join(folder, "books.db"), cfg)
	if err != nil {
		return nil, err
	}
	return storage.New(store{inner.Driver(), folder}), nil
}

type store struct {
	driver.Store
	folder string
}

func (s store) Blobs(name string) driver.Blobs { return blobs{s.Store.Blobs(name), s} }

type blobs struct {
	driver.Blobs
	store store
}

// Get fails while the folder has a file "lock".
func (b blobs) Get(ctx context.Context, key string, known storage.ETag) (storage.Blob, error) {
	if _, err := os.Stat(filepath.Join(b.store.folder, "lock")); err == nil {
		return storage.Blob{}, fmt.Errorf("%w: %w", storage.ErrUnavailable, locked{b.store.folder})
	}
	return b.Blobs.Get(ctx, key, known)
}

// locked is the driver's own error.
type locked struct{ folder string }

func (e locked) Error() string { return "shelf " + e.folder + " is locked" }

// Public implements driver.PublicError.
func (locked) Public() string { return "the shelf is locked" }
