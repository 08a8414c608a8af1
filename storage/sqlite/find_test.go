package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// A message is found among a million as fast as alone.
func TestFindLooksAtNoOtherMessage(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "test.db"), "")
	var plan []string
	err := s.db.Read(t.Context(), func(c *engine.Conn) error {
		steps := c.Stmt("EXPLAIN QUERY PLAN "+findByKey).Int(1, 1).Text(2, "key")
		for {
			row, err := steps.Step()
			if err != nil || !row {
				return err
			}
			plan = append(plan, steps.ColText(3))
		}
	})
	if err != nil || len(plan) != 3 || !strings.Contains(plan[0], "keys_key (queue=? AND key=?)") || !strings.Contains(plan[1], "PRIMARY KEY (rowid=?)") ||
		!strings.Contains(plan[2], "PRIMARY KEY (queue=? AND visible=? AND id=?)") {
		t.Errorf("plan %q, %v; want each table searched by all columns of an index", plan, err)
	}
}

// SQLite uses the ids of deleted messages again. A receipt that was found before must not delete the message that has
// the id now, not even in the same place.
func TestWhatWasFoundIsNotTheNextMessage(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "test.db"), "")
	send := func() []storage.Delivery {
		t.Helper()
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Key: "key", Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		ds, err := s.Find(t.Context(), "queue", "key")
		if err != nil || len(ds) != 1 {
			t.Fatalf("found %v, %v; want one", ds, err)
		}
		return ds
	}
	first := send()
	if err := s.Queue("queue").Delete(t.Context(), []storage.Receipt{first[0].Receipt}); err != nil {
		t.Fatal(err)
	}
	second := send()
	old, _ := parseReceipt(first[0].Receipt)
	next, _ := parseReceipt(second[0].Receipt)
	if old.id != next.id {
		t.Fatalf("ids %d and %d: the test proves nothing", old.id, next.id)
	}
	next.gen = old.gen
	if err := s.Queue("queue").Delete(t.Context(), []storage.Receipt{next.receipt()}); err == nil {
		t.Error("a receipt of the first message deleted the second")
	}
}

// Rows of keys whose messages are gone don't pile up, and those of messages that wait stay.
func TestKeysOfGoneMessagesGo(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "test.db"), "")
	q := s.Queue("queue")
	const waiting, all = 20, 2000
	for i := range all {
		key := fmt.Sprint("key-", i)
		if err := q.Send(t.Context(), []storage.Message{{Key: key, Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		if i < waiting {
			continue
		}
		ds, err := s.Find(t.Context(), "queue", key)
		if err == nil && len(ds) == 1 {
			err = q.Delete(t.Context(), []storage.Receipt{ds[0].Receipt})
		}
		if err != nil || len(ds) != 1 {
			t.Fatalf("found %d, %v; want one that can be deleted", len(ds), err)
		}
	}
	for i := range waiting {
		if ds, err := s.Find(t.Context(), "queue", fmt.Sprint("key-", i)); err != nil || len(ds) != 1 {
			t.Errorf("found %d of key %d, %v; want one", len(ds), i, err)
		}
	}
	var rows int64
	err := s.db.Read(t.Context(), func(c *engine.Conn) error {
		count := c.Stmt("SELECT count(*) FROM keys")
		_, err := count.Step()
		rows = count.ColInt(0)
		return err
	})
	if err != nil || rows < waiting || rows > all/10 {
		t.Errorf("got %d rows of keys, %v; want those of %d messages and few more", rows, err, waiting)
	}
}
