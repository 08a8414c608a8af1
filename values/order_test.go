package values_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

type noticed struct {
	N int `json:"n"`
}

func (noticed) Kind() channel.Kind { return "test.noticed.v1" }

type ignored struct {
	N int `json:"n"`
}

func (ignored) Kind() channel.Kind { return "test.ignored.v1" }

type tally struct {
	N int `json:"n"`
}

// Each emission names the one before it to each queue that is in order. Those that go to other queues, and those that
// are due later, aren't in between. So it is after the document was read from the store, too.
func TestAnEmissionNamesTheOneBefore(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{Routes: []channel.Route{
			channel.Event[noticed]("sms", "mails"), channel.Event[ignored]("bills", "mails"), channel.InOrder("sms"), channel.InOrder("mails"),
		}})
		apply := func(i int, emits ...channel.Message) {
			t.Helper()
			c := values.New(w.Channels, "things", values.Config[tally]{}) // another process each time
			e := worldtest.Envelope(worldtest.IDAt(time.Now(), i), noticed{})
			change := values.Change[tally]{Envelope: &e, Fold: func(v tally) (tally, []channel.Message, error) {
				v.N++
				return v, emits, nil
			}}
			for _, o := range c.Apply(t.Context(), "a", []values.Change[tally]{change}, nil) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
			}
		}
		apply(1, noticed{1}, ignored{2}, noticed{3}) // 1, 2, 3
		apply(2, ignored{4}, channel.After(time.Hour, noticed{5}), ignored{6})
		apply(3, noticed{7})
		want := map[string][]string{
			"sms":   {"1 after 0", "3 after 1", "5 outside", "7 after 3"},
			"mails": {"1 after 0", "2 after 1", "3 after 2", "4 after 3", "5 outside", "6 after 4", "7 after 6"},
			"bills": {"2 outside", "4 outside", "6 outside"},
		}
		time.Sleep(2 * time.Hour)
		for queue, want := range want {
			var got []string
			for _, e := range worldtest.Take(t, s, queue) {
				line := fmt.Sprint(e.Sequence, " outside")
				if n, at, ok := e.PreviousTo(queue); ok {
					line = fmt.Sprint(e.Sequence, " after ", n)
					if n > 0 && time.Since(at) > 3*time.Hour {
						t.Errorf("%s: the one before was made at %v", line, at)
					}
				}
				got = append(got, line)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", queue, got, want)
			}
		}
	})
}
