package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A process that listens and never answers is found. A store that doesn't ring has no such process.
func TestDoctorFindsAListenerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	silent := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "publish" {
			return op.Fail(fmt.Errorf("%w: 1 process listens at 192.0.2.1:4000 and can't be reached", storage.ErrUnavailable))
		}
		return do()
	})
	x := newTraveller(t, silent)
	contains(t, "a silent process", x.want(t, 0, "", "doctor"), "NOTE not all processes can be rung from here", "1 process listens at 192.0.2.1:4000 and can't be reached", "let UDP pass", "-doorbell-address")
	for what, store := range map[string]*storage.Store{"all answer": s, "nothing rings": storagetest.Plain(silent)} {
		if out := newTraveller(t, store).want(t, 0, "", "doctor"); strings.Contains(out, "rung") {
			t.Errorf("%s: got %s", what, out)
		}
	}
}
