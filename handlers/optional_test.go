package handlers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A queue is optional from the level that the program says. Mistakes are reported with the registry's.
func TestOptional(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	handlers.React(w.Registry, "audits", func(context.Context, Added) error { return nil })
	w.Project()
	handlers.Optional(w.Registry, worldtest.Audits, 2)
	worldtest.Want(t, "level", w.Registry.Inside().Optional[worldtest.Audits], 2)
	worldtest.Want(t, "level of another queue", w.Registry.Inside().Optional[worldtest.Totals], 0)
	if err := w.Registry.Err(); err != nil {
		t.Error(err)
	}
	handlers.Optional(w.Registry, worldtest.Audits, 1)
	handlers.Optional(w.Registry, worldtest.Totals, 4)
	handlers.Optional(w.Registry, "nowhere", 1)
	for _, want := range []string{`optional "audits": said twice`, `optional "totals": the level is 4; want 1 to 3`, `optional "nowhere": the queue has no handler`} {
		if err := w.Registry.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
