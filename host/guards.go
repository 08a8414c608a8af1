package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/guard"
)

// servicesAway says for which services the queues of this process wait. It tells no error: everybody may read it, and
// the log and doctor have that.
func servicesAway(guards map[string]*guard.Guard) (text string) {
	queues := map[*guard.Guard][]string{}
	for _, q := range slices.Sorted(maps.Keys(guards)) {
		queues[guards[q]] = append(queues[guards[q]], q)
	}
	var away []string
	for g, its := range queues {
		if s := g.Status(); s.Open {
			what, since := "has been away for %v", time.Since(s.Since).Round(time.Second)
			if s.Asks {
				what = "asked to wait %v ago"
			}
			away = append(away, fmt.Sprintf("; %s "+what+", and this waits for it: %s", s.Name, since, strings.Join(its, ", ")))
		}
	}
	slices.Sort(away)
	return strings.Join(away, "")
}
