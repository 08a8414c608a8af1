package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promtool runs the tool of Prometheus, or leaves the test out where the tool isn't wanted.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "promtool") {
			t.Fatal("promtool is not installed")
		}
		t.Skip("no promtool")
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// The rules are valid, and each fires when its trouble is there and not otherwise.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

// Each metric in the rules is one of those that the pages name, by its own name or by that of a part of a histogram.
func TestAlertsNameMetrics(t *testing.T) {
	t.Parallel()
	told := read(t, "../docs/operating.md") + read(t, "../docs/settings.md") + read(t, "../docs/order.md")
	seen := 0
	for _, expr := range regexp.MustCompile(`(?m)^ *expr: (.*)$`).FindAllStringSubmatch(read(t, "alerts.yaml"), -1) {
		for _, name := range regexp.MustCompile(`millrace_\w+`).FindAllString(expr[1], -1) {
			seen++
			if name = strings.TrimSuffix(name, "_bucket"); !strings.Contains(told, "`"+name+"`") {
				t.Errorf("no page names %s", name)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d metrics were looked at", seen)
	}
}
