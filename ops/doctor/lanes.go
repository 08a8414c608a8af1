package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage/lanes"
)

// laneFindings are about messages in lanes that the program of today doesn't look into. A program may have been
// replaced by one of the same version, so all lanes that a queue can have are looked at.
func laneFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for _, queue := range slices.Sorted(maps.Keys(desk.Known.Queues)) {
		now, ok := desk.Known.Divided(queue)
		if !ok {
			continue
		}
		seen := []string{queue}
		if now != (lanes.Queue{}) {
			seen = now.Names(queue)
		}
		left := slices.DeleteFunc(lanes.Queue{Lanes: lanes.Most, Priorities: true}.Names(queue), func(name string) bool { return slices.Contains(seen, name) || desk.Known.Queues[name] })
		stats, err := look.Stats(ctx, desk, left)
		if err != nil {
			return nil, err
		}
		n, fixes := int64(0), map[string]bool{}
		for i, st := range stats {
			here := max(0, st.Ready) + max(0, st.Delayed)
			if n += here; here == 0 {
				continue
			}
			lane := strings.TrimPrefix(left[i], queue)
			if strings.HasPrefix(lane, "-high") || strings.HasPrefix(lane, "-low") {
				fixes[fmt.Sprintf("channel.Priorities(%q)", queue)] = true
			} else {
				fixes[fmt.Sprintf("channel.Lanes(%q, 1)", queue)] = true
			}
		}
		if n == 0 {
			continue
		}
		all = append(all, Finding{Severity: Wrong, Check: "lanes", Queue: queue,
			Text: fmt.Sprintf("%s in lanes that queue %s no longer has", look.Waiting(n), queue),
			Fix:  fmt.Sprintf("Start a worker with %s among its routes, until this is gone.", strings.Join(slices.Sorted(maps.Keys(fixes)), " and "))})
	}
	return all, nil
}
