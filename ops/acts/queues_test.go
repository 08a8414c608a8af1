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
