package gate_test

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

func TestRepair(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		if err := gate.Repair(t.Context(), s, name, gate.Note{}); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("without a blob: %v", err)
		}
		if _, err := s.Blobs("gates").Put(t.Context(), name, []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		g := gate.At(s, name)
		if err := g.Close(t.Context(), gate.Note{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("junk was closed: %v", err)
		}
		if err := gate.Repair(t.Context(), s, name, gate.Note{By: "ada", Why: "junk"}); err != nil {
			t.Fatal(err)
		}
		if state, err := g.State(t.Context()); err != nil || state.Open || state.By != "ada" || state.Why != "junk" || state.Epoch != 1 {
			t.Errorf("repaired: %+v, %v", state, err)
		}
		if err := g.Open(t.Context(), gate.Note{}); err != nil {
			t.Fatal(err)
		}
		if err := gate.Repair(t.Context(), s, name, gate.Note{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("a gate was repaired: %v", err)
		}
		if state, err := g.State(t.Context()); err != nil || !state.Open {
			t.Errorf("after the repair of a gate: %+v, %v", state, err)
		}
		if err := gate.Repair(t.Context(), s, "", gate.Note{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("without a name: %v", err)
		}
	})
}
