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
)

// OpenExisting is OpenStore for a program that shall not make an empty store where somebody has mistyped the name of one. It
// can tell for files only.
func (s Settings) OpenExisting(ctx context.Context, log *slog.Logger) (storage.Store, error) {
	file, ok := strings.CutPrefix(*s.store, "sqlite:")
	file, _, _ = strings.Cut(file, "?")
	if _, err := os.Stat(file); ok && file != "" && errors.Is(err, fs.ErrNotExist) {
		if full, err := filepath.Abs(file); err == nil {
			file = full
		}
		return nil, fmt.Errorf("-store: there is no file %s; the web or a worker makes it when it first starts", storage.Quote(file))
	}
	return s.OpenStore(ctx, log)
}
