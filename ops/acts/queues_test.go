package acts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/ops/act"
)

// A number that an engine doesn't know is null and –, not 0 or -1.
func TestUnknownNumbers(t *testing.T) {
	t.Parallel()
	if got := act.Cell(cell(-1)); got != act.Unknown {
		t.Errorf("got %q, want %q", got, act.Unknown)
	}
	b, err := json.Marshal(Queue{Ready: number(0), InFlight: number(-1)})
	if want := `"ready":0,"in_flight":null`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("got %s (%v), want %s", b, err, want)
	}
}

// Running times of handlers are short, and are shown as they are. Where none ran, nothing is shown.
func TestRunningTimesAreShown(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: act.Unknown, 0.0213: "20ms", 0.213: "210ms", 90: "1m30s"} {
		if got := act.Cell(ranFor(&seconds)); got != want {
			t.Errorf("%v: got %q, want %q", seconds, got, want)
		}
	}
}
