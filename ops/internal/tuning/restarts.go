package tuning

import (
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/settings"
)

// Restarts returns the programs that run a version in force but for some settings, which wait for their restart, and
// how many programs don't run the version at all.
func Restarts(version int64, nodes []settings.Node) (need []settings.Node, others int) {
	for _, n := range nodes {
		if n.Version != version {
			others++
		} else if len(n.Waiting) > 0 {
			need = append(need, n)
		}
	}
	return need, others
}

// mostNamed is how many programs a sentence names.
const mostNamed = 10

// RestartText is the sentence about programs that need a restart, and for what.
func RestartText(need []settings.Node) string {
	var all []string
	for _, n := range need[:min(len(need), mostNamed)] {
		all = append(all, fmt.Sprintf("%s (%s)", n.Name, strings.Join(n.Waiting, ", ")))
	}
	if more := len(need) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if len(need) == 1 {
		return all[0] + " needs a restart"
	}
	return strings.Join(all, ", ") + " need a restart"
}
