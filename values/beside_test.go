package values_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A row that a fold returns is put with the document, whatever leaves the window at the same time. Of several of one
// key the last counts. It isn't sent.
func TestRowsBesideTheDocument(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const window = 2
		p := newProcess(t, s, values.Config[Account]{Window: window})
		shows := func(id string, n int) values.Change[Account] {
			x := p.change(id, 1)
			return values.Change[Account]{Envelope: x.Envelope, Fold: func(v Account) (Account, []channel.Message, error) {
				v.Balance++
				return v, []channel.Message{wire.Row{Table: "shown", Partition: "open", Key: "k", Data: fmt.Append(nil, n)}}, nil
			}}
		}
		for i := range 5 * window {
			time.Sleep(time.Millisecond)
			id := func(j int) string { return worldtest.IDAt(time.Now(), 10*i+j) }
			p.applied("k", shows(id(1), 10*i+1), shows(id(2), 10*i+2))
			row, err := s.Table("shown").Get(t.Context(), "open", "k")
			if want := fmt.Sprint(10*i + 2); err != nil || string(row.Data) != want {
				t.Fatalf("want the row %s, got %q, %v", want, row.Data, err)
			}
			if r := stored(t, s, "k"); len(r.Applied)/entrySize+rows(t, s, "k") != 2*(i+1) {
				t.Fatalf("after %d messages %d and %d are remembered", 2*(i+1), len(r.Applied)/entrySize, rows(t, s, "k"))
			}
		}
	})
}
