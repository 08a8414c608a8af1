package boot

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

// OpenExisting is OpenStore for a command on the store of other programs. It makes no empty store from a mistyped name,
// and leaves a file's schema as it is. It can tell for files only.
func (s Settings) OpenExisting(ctx context.Context, log *slog.Logger) (*storage.Store, error) {
	if file := s.File(); file != "" {
		full, err := filepath.Abs(file)
		if err != nil {
			full = file
		}
		switch info, err := os.Stat(file); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("-store: file %s does not exist; the program whose store it is creates it at its first start", storage.Quote(full))
		case err == nil && info.Mode().IsRegular() && info.Size() == 0:
			return nil, fmt.Errorf("-store: file %s is empty; the program whose store it is creates the store in it at its first start", storage.Quote(full))
		}
	}
	drivers := Drivers(log)
	drivers["sqlite"] = sqlite.Existing(log)
	store, _, err := s.open(ctx, drivers, log)
	return store, err
}

// File returns the path of a store in a file. It returns "" for any other store, and for a path that the driver
// refuses.
func (s Settings) File() string {
	if !strings.HasPrefix(*s.store, "sqlite:") {
		return ""
	}
	file, _ := sqlite.File(strings.TrimPrefix(*s.store, "sqlite:")) // opening the store tells the error
	return file
}
