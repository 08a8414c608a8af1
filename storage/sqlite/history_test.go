package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	storagetest.RunHistories(t, storagetest.Driver(Open, func(t *testing.T) string {
		return filepath.Join(t.TempDir(), "test.db")
	}))
}
