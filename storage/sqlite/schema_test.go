package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// A file with the first schema, as a program of that version left it, has messages that are ready, delayed and in
// flight.
func TestUpgradeFromFirstSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	now := time.Now()
	insert := func(queue int, visible time.Time, held, deliveries int, body string) string {
		return fmt.Sprintf("INSERT INTO messages (queue, visible, held, gen, sent, deliveries, body) VALUES (%d, %d, %d, %d, %d, %d, CAST('%s' AS BLOB))",
			queue, micros(visible), held, peers.AnonymousGeneration(), micros(now.Add(-time.Hour)), deliveries, body)
	}
	large := strings.Repeat("large ", 2000) // on pages of its own
	scratch(t, path, append(append([]string{"PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL"}, migrations[0]...),
		fmt.Sprintf("INSERT INTO names VALUES (1, %d, 'queue'), (2, %d, 'other')", kindQueue, kindQueue),
		insert(1, now.Add(-time.Minute), 0, 0, "second"),
		insert(1, now.Add(-time.Hour), 0, 2, "first"),
		insert(1, now.Add(time.Hour), 0, 0, "delayed"),
		insert(1, now.Add(time.Hour), 1, 1, "in flight"),
		insert(1, now.Add(-time.Second), 1, 1, "given up"),
		insert(2, now.Add(-time.Second), 0, 0, large),
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		"PRAGMA user_version = 1")...)

	s := openAt(t, path, "")
	st, err := s.Queue("queue").Stats(t.Context())
	if err != nil || st.Ready != 3 || st.Delayed != 1 || st.InFlight != 1 || st.Oldest < time.Hour {
		t.Errorf("stats %+v, %v; want 3 ready, 1 delayed, 1 in flight, an hour old", st, err)
	}
	var got []string
	var receipts []storage.Receipt
	for _, d := range receive(t, s, "queue", 10) {
		got, receipts = append(got, fmt.Sprintf("%s %d", d.Body, d.Deliveries)), append(receipts, d.Receipt)
		if d.SentAt.UnixMicro() != micros(now.Add(-time.Hour)) {
			t.Errorf("%s was sent at %v", d.Body, d.SentAt)
		}
	}
	if want := []string{"first 3", "second 1", "given up 2"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("received %q; want %q", got, want)
	}
	if err := s.Queue("queue").Delete(t.Context(), receipts); err != nil {
		t.Error(err)
	}
	if got := receive(t, s, "other", 10); len(got) != 1 || string(got[0].Body) != large {
		t.Errorf("received %d messages; want the large one", len(got))
	}
	send(t, s, "queue", "new")
	if got := all(t, s, "queue"); fmt.Sprint(got) != "[new]" {
		t.Errorf("received %q; want the new one", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, "") // nothing to do any more
	if st, err := s.Queue("queue").Stats(t.Context()); err != nil || st.Delayed != 1 || st.InFlight != 2 {
		t.Errorf("stats %+v, %v; want 1 delayed and 2 in flight, the new one among them", st, err)
	}
}

// A command on the store of other programs leaves an older schema as it is, because those programs could not open the
// file any more.
func TestExistingLeavesTheSchema(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		id   int
		open func(ctx context.Context, url string, existing bool) (*storage.Store, error)
	}{
		"a store": {applicationID, func(ctx context.Context, url string, existing bool) (*storage.Store, error) {
			return Driver.Open(ctx, url, storage.OpenConfig{Logger: quiet, Existing: existing})
		}},
		"a spool": {spoolID, func(ctx context.Context, url string, existing bool) (*storage.Store, error) {
			return OpenSpool(ctx, url, quiet, existing)
		}},
	} {
		path := filepath.Join(t.TempDir(), "test.db")
		scratch(t, path, append(append([]string{"PRAGMA journal_mode = WAL"}, migrations[0]...), fmt.Sprintf("PRAGMA application_id = %d", c.id), "PRAGMA user_version = 1")...)
		version := func() int64 {
			db, err := engine.Connect(path, engine.ReadOnly)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			n, err := db.OneInt("PRAGMA user_version")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		_, err := c.open(t.Context(), path+"?wake=off", true)
		wantError(t, err, storage.ErrUnsupported, "schema version 1", "of their version")
		if got := version(); got != 1 {
			t.Errorf("%s: the file has schema version %d, want 1 as before", name, got)
		}
		s, err := c.open(t.Context(), path+"?wake=off", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = c.open(t.Context(), path+"?wake=off", true); err != nil {
			t.Fatalf("%s with the newest schema: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A command on the store of other programs makes no empty store from a mistyped name.
func TestExistingMakesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	missing, empty := filepath.Join(folder, "missing.db"), filepath.Join(folder, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{missing: "does not exist", empty: "is empty"} {
		_, err := storage.Drivers{Driver}.Open(t.Context(), "sqlite:"+path, storage.OpenConfig{Existing: true})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v; want an error with %q and the path", path, err, want)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v; want the empty file alone", files, err)
	}
}
