package host_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/throttle"
)

// A worker refuses the bound of a queue that waits at the level of that bound: the queue would never get shorter, and
// the level never fall. The error says what to do. A bound of a lower level is as good as one of another queue.
func TestABoundOfAQueueThatWaitsAtItsLevelIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level, from int
		refused     bool
	}{
		{0, 1, true}, {1, 1, true}, {2, 1, true}, {3, 3, true}, {1, 2, false}, {2, 3, false}, {0, 3, false},
	} {
		p := shop()
		register := p.Register
		p.Register = func(h *handlers.Registry) error {
			handlers.Optional(h, "orders", c.from)
			return register(h)
		}
		p.Raise = throttle.Raise{Bounds: []throttle.Bound{{Queue: "orders", Waiting: 100, Level: c.level}}}
		r := start(t, p, "-addr=127.0.0.1:0", "-admin=off")
		if !c.refused {
			r.url(t)
			worldtest.Want(t, "exit code", r.end(), host.ExitOK)
			continue
		}
		select {
		case code := <-r.code:
			worldtest.Want(t, "exit code", code, host.ExitError)
		case <-time.After(time.Minute):
			t.Fatalf("level %d, optional from %d: the program runs", c.level, c.from)
		}
		r.line(t, "it would wait at that level, and never get shorter; give the bound to another queue")
	}
}
