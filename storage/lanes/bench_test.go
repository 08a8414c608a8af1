package lanes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// BenchmarkDrain measures what lanes cost where nobody needs them: b.N messages are sent, and then handled.
func BenchmarkDrain(b *testing.B) {
	for _, x := range []struct {
		name    string
		tenants int
		routes  []channel.Route
	}{
		{"one queue", 1, nil},
		{"8 lanes, one tenant", 1, []channel.Route{channel.Lanes(purchases, 8)}},
		{"8 lanes, 200 tenants", 200, []channel.Route{channel.Lanes(purchases, 8)}},
	} {
		b.Run(x.name, func(b *testing.B) {
			s := newShop(b, worldtest.OpenStore(b, ""), x.routes...)
			for i := 0; i < b.N; i += 50 {
				s.send(b.Context(), fmt.Sprint("tenant-", i/50%x.tenants), fmt.Sprint("m", i), min(50, b.N-i))
			}
			b.ResetTimer()
			stop := s.work(worker.Config{}, func(buy) time.Duration { return 0 })
			s.wait(b.N)
			b.StopTimer()
			stop()
		})
	}
}
