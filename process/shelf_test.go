package process_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/process"
)

// Law 15. The undos may need more than a document holds: that lies in rows, and comes back for them.
func TestUndosThatNeedMoreThanADocumentHolds(t *testing.T) {
	parttest.InTurn(t)
	const steps = 300
	each(t, func(c *crew, p *process.Plan[note]) {
		for i := range steps {
			name := fmt.Sprintf("s%03d", i)
			process.Do(p, name, func(context.Context, note) (string, error) { return name + strings.Repeat("x", 1000), nil }, nil).
				Undo(func(ctx context.Context, _ note, r string) error {
					_, err := c.work(ctx, "undo "+r[:4])
					return err
				})
		}
		c.do(p, "last")
	}, func(l *lab) {
		l.when("last", func(context.Context) (string, error) { return "", process.Refuse(errors.New("no")) })
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Aborted, "")
		l.wantError("i", "no")
		l.wantPoison()
		undone := strings.Split(strings.TrimPrefix(l.took(), "last, "), ", ")
		if len(undone) != steps || !slices.IsSortedFunc(undone, func(a, b string) int { return strings.Compare(b, a) }) {
			l.t.Errorf("%d are undone: %q", len(undone), undone)
		}
		if n := strings.Count(l.timeline("i"), "undone"); n < steps {
			l.t.Errorf("the timeline has %d steps that are undone, want %d", n, steps)
		}
	})
}
