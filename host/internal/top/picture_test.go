package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/ops/watch"
	"github.com/millrace-go/millrace/storage"
)

// A picture fits its terminal: what matters least goes first, and nothing of a name moves the cursor.
func TestPicturesFit(t *testing.T) {
	t.Parallel()
	l := &watch.Look{At: time.Now(), Poisoned: map[string]int64{"queue-3": 7}}
	for i := range 20 {
		l.Names = append(l.Names, fmt.Sprintf("queue-%d", i))
		l.Stats = append(l.Stats, storage.Stats{Ready: int64(i * i), InFlight: -1, Delayed: -1, Oldest: time.Duration(i) * time.Minute})
		out := float64(i) * 7.77
		l.Consumed, l.Rates = append(l.Consumed, "shop v1, v2; mail v3"), append(l.Rates, watch.Rates{Out: &out, P99: time.Duration(i) * time.Millisecond})
	}
	l.Note = "no worker says \x1b[31m anything"
	l.Names[4] = "bad \x1b[31m\u202e"
	for _, c := range []struct {
		width, height int
		has, hasNot   string
	}{
		{120, 40, "CONSUMED BY", "more"},
		{120, 40, "P99", "more"},
		{120, 40, "P99", "more"},
		{76, 40, "OUT", "CONSUMED BY"},
		{66, 40, "Note: no worker says", "P99"},
		{50, 12, "LAG", "DELAYED"},
		{36, 4, "… and 20 more queues", "OUT"},
		{36, 3, "… and 20 more queues", "Note"},
		{10, 1, "…", "LAG"},
	} {
		var w strings.Builder
		s := &terminal.Screen{To: &w, Size: func() (int, int) { return c.width, c.height }}
		if err := draw(s, l, nil); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "", "\r", "").Replace(w.String())
		lines := strings.Split(text, "\n")
		if len(lines) > max(c.height, 3) || !strings.Contains(text, c.has) || strings.Contains(text, c.hasNot) || strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%d × %d: got %d lines\n%s", c.width, c.height, len(lines), text)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > c.width {
				t.Errorf("%d × %d: a line of %d columns: %s", c.width, c.height, n, line)
			}
		}
	}
	for x, want := range map[float64]string{0: "0/s", 0.01: "<0.1/s", 1.25: "1.2/s", 1234.5: "1234/s"} {
		if got := rate(&x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
	for d, want := range map[time.Duration]string{7 * time.Microsecond: "7µs", 1234 * time.Microsecond: "1.2ms", 123456 * time.Microsecond: "120ms", 4 * time.Minute: "4m0s"} {
		if got := brief(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
