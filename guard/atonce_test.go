package guard_test

import (
	"context"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/guard"
)

// Of numbers that two set at once, all are those of one of them, whoever looks.
func TestNumbersThatTwoSetAtOnce(t *testing.T) {
	t.Parallel()
	g := guard.New("smtp", guard.Config{Slots: 10, Break: guard.Break{Of: 10}})
	var setting, looking sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	looking.Go(func() {
		for ctx.Err() == nil {
			if l := g.Limits(); l.Slots != l.Break.Of {
				t.Errorf("%d slots of one, and a break of %d of the other", l.Slots, l.Break.Of)
				return
			}
		}
	})
	for n := 1; n <= 2; n++ {
		setting.Go(func() {
			for range 50_000 {
				if err := g.Set(guard.Limits{Slots: 10 * n, Break: guard.Break{Of: 10 * n}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	setting.Wait()
	cancel()
	looking.Wait()
}
