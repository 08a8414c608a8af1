package agree_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A process lives while its row changes, and for its silence after the change was seen. The rows of the dead are
// buried, unless they have changed. A row that isn't a process's is passed over, and a failed look changes nothing.
func TestAPresenceTellsLiveRowsFromDeadOnes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		rows := s.Table("rows")
		p := agree.Presence[string]{Rows: link.Store.Table("rows"), Partition: "all", Decode: func(key string, data []byte) (string, time.Duration, bool) {
			return key + string(data), ttl, key != "stranger"
		}}
		beat := func(keys ...string) {
			for _, key := range keys {
				if _, err := rows.Put(t.Context(), "all", key, fmt.Append(nil, time.Now().Unix()), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		began := time.Now()
		look := func(after time.Duration, want map[string]bool) {
			t.Helper()
			time.Sleep(time.Until(began.Add(after)))
			if err := p.Look(t.Context(), storage.RowRange{}); err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for key, s := range p.Seen {
				got[key] = s.Alive
			}
			if !maps.Equal(got, want) {
				t.Errorf("after %v the live ones are %v, want %v", after, got, want)
			}
		}
		beat("a", "b", "stranger")
		look(0, map[string]bool{"a": true, "b": true})
		look(ttl-1, map[string]bool{"a": true, "b": true})
		if after := p.Seen["a"].After; !after.IsZero() {
			t.Errorf("it is known after which look a row was written that was there before: %v", after)
		}
		beat("b")
		look(ttl, map[string]bool{"a": false, "b": true})
		if b := p.Seen["b"]; b.After != began.Add(ttl-1) || b.Dies != began.Add(2*ttl) {
			t.Errorf("the row that has changed: %+v", b)
		}
		link.Cut()
		if err := p.Look(t.Context(), storage.RowRange{}); err == nil || len(p.Seen) != 2 {
			t.Errorf("without the store: %v, %v", err, p.Seen)
		}
		link.Restore()
		look(2*ttl, map[string]bool{"a": false, "b": false})
		beat("b")
		p.Bury(t.Context(), "a")
		p.Bury(t.Context(), "b")
		look(2*ttl, map[string]bool{"b": true})
		if keys := slices.Sorted(maps.Keys(p.Seen)); !slices.Equal(keys, []string{"b"}) {
			t.Errorf("rows %q are left", keys)
		}
	})
}
