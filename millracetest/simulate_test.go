package millracetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/millracetest"
)

// A sound program keeps the laws under all faults.
func TestSimulate(t *testing.T) {
	t.Parallel()
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		m := &mails{}
		sim.Start(program(m))
		sim.Always("no order has more seats than were asked for", func() error {
			if o := millracetest.Value(t, orders(sim.Channels()), "order-1"); o.Seats > 20 {
				return fmt.Errorf("%d seats", o.Seats)
			}
			return nil
		})
		total := 0
		for i := range 10 {
			n := 1 + sim.Rand.IntN(4)
			total += n
			sim.Send(place{fmt.Sprintf("order-%d", i%4), n})
			sim.Advance(time.Duration(sim.Rand.IntN(60)) * time.Second)
		}
		sim.Settle()
		if n := millracetest.View(t, seats(sim.Channels()), "all"); n != total {
			t.Errorf("seats: got %d, want %d", n, total)
		}
	})
}
