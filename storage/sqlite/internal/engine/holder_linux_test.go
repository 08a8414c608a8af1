package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// A process that stands still within a transaction stops all that write. The error of a write that has waited for it
// names the process.
func TestAWriterThatStandsStillIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db := openAt(t, path)
		if err := insert(db, "a"); err != nil {
			t.Fatal(err)
		}
		other, err := Connect(path, ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		if err := insert(db, "b"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) || !strings.Contains(err.Error(), "let it go on or end it") {
			t.Errorf("got %v, want which process holds the file, and what to do", err)
		}
		if err := other.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if err := insert(db, "c"); err != nil {
			t.Errorf("after that: %v", err)
		}
	})
}
