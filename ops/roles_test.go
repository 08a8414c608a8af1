package ops

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
)

// Law: all viewers share what was read. So an act that isn't for all of them isn't done by a read, whoever asks.
func TestLawReadsAreForViewers(t *testing.T) {
	t.Parallel()
	n := 0
	for _, a := range acts.All() {
		q := a.Request()
		if a.Role == act.Viewer {
			continue
		}
		if f := q.Field("dry-run"); f != nil {
			if err := f.Set("true"); err != nil {
				t.Fatal(err)
			}
		}
		n++
		_, err := new(reads).read(t.Context(), a.Name(), q)
		if bad := (*act.UsageError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s: got %v", a.Name(), err)
		}
	}
	if n < 10 {
		t.Errorf("only %d acts change something", n)
	}
}
