package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// TestADamagedFileAcknowledgesNothing damages the file, or its log, under an open store. Once a statement has found
// that, every call fails and says why, though the pages that a write needs are in memory. Close fails too, and leaves
// the file and the log as they are. A log that was cut to nothing is found by the next commit.
func TestADamagedFileAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	overwritten := func(t *testing.T, s *store) {
		info, err := os.Stat(s.path)
		if err == nil {
			err = os.WriteFile(s.path, bytes.Repeat([]byte("damaged!"), int(info.Size()/8)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		var found error
		for i := 0; i < 200 && found == nil; i++ { // until a read needs a page that isn't in memory
			_, found = s.Blobs("docs").Get(t.Context(), fmt.Sprint("key", i), "")
		}
		wantError(t, found, storage.ErrUnavailable, "damaged", "backup", "start again")
	}
	for name, damage := range map[string]func(t *testing.T, s *store){
		"overwritten": overwritten,
		"log cut": func(t *testing.T, s *store) {
			if err := os.Truncate(s.path+"-wal", 0); err != nil {
				t.Fatal(err)
			}
		},
		"log's beginning is gone": func(t *testing.T, s *store) {
			f, err := os.OpenFile(s.path+"-wal", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, 32), 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			s := openAt(t, path, "?wake=off")
			writeEach(t, s, "old")
			for i := range 200 {
				if _, err := s.Blobs("docs").Put(t.Context(), fmt.Sprint("key", i), bytes.Repeat([]byte("x"), 10_000), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(t.Context(), path+"?wake=off")
			if err != nil {
				t.Fatal(err)
			}
			s = again.Driver().(*store)
			send(t, s, "queue", "acknowledged")
			receipt := receive(t, s, "queue", 1)[0].Receipt
			damage(t, s)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := s.Queue("queue").Send(t.Context(), text("late")); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") {
					t.Errorf("send: got %v; want that the file is damaged", err)
				}
			}
			for call, err := range everyCall(t, s, receipt) {
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "backup") {
					t.Errorf("%s: got %v; want unavailable, why, and what to do", call, err)
				}
			}
			wantError(t, s.Close(), storage.ErrUnavailable, "damaged")
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// TestALogThatIsEmptiedInOrder has another program copy the log and empty it between commits, as the sqlite3 shell can.
// That is no damage.
func TestALogThatIsEmptiedInOrder(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	tool, err := engine.Connect(s.path, engine.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	for range 3 {
		send(t, s, "queue", "body")
		if _, err := tool.One("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(s.path + "-wal"); err != nil || info.Size() > 0 {
			t.Fatalf("the log isn't empty: %v, %v", info, err)
		}
		if _, err := s.Queue("other").Receive(t.Context(), 1, time.Minute); err != nil { // a commit that writes nothing
			t.Fatal(err)
		}
	}
	if got := len(receive(t, s, "queue", 5)); got != 3 {
		t.Errorf("got %d messages, want 3", got)
	}
}
