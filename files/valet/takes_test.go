package valet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// closedTo is a store whose files can be read, and none comes.
type closedTo struct{ driver.Store }

func (s closedTo) Files() driver.Files { return closedFiles{s.Store.Files()} }

type closedFiles struct{ driver.Files }

func (closedFiles) Takes() error { return fmt.Errorf("%w: open it with a key", storage.ErrUnsupported) }

// A program that has rules for uploads hears at its start that no bytes can come. One that only reads works on.
func TestAStoreThatTakesNoBytes(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		files := storage.New(closedTo{w.app.Store().Driver()})
		_, err := valet.New(w.app.Channels(), valet.Config{Files: files, Rules: rules()})
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "open it with a key") {
			w.t.Errorf("with rules: got %v, want why", err)
		}
		if _, err := valet.New(w.app.Channels(), valet.Config{Files: files}); err != nil {
			w.t.Errorf("without rules: got %v", err)
		}
	})
}
