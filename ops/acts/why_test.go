package acts_test

import (
	"slices"
	"testing"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
)

// Law: an act that changes something takes a reason, and no other act does. It must have one if it needs an admin, or
// if it keeps messages from their handlers.
func TestLawReasonsFollowOneRule(t *testing.T) {
	t.Parallel()
	keeps := []string{"queues pause", "messages cancel"}
	for _, a := range acts.All() {
		want := act.May
		switch {
		case a.Role == act.Viewer:
			want = act.Not
		case a.Role == act.Admin, slices.Contains(keeps, a.Name()):
			want = act.Must
		}
		if a.Why != want {
			t.Errorf("%s: got %d, want %d", a.Name(), a.Why, want)
		}
	}
}
