package gate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

// Repair closes a gate whose blob is no gate, because it is damaged or somebody else wrote it. A blob that is a gate
// stays as it is, with an error that is storage.ErrInvalid: open or close it.
func Repair(ctx context.Context, store *storage.Store, name string, note Note) error {
	g := At(store, name)
	if g.fault != nil {
		return g.fault
	}
	note, err := note.withDefaults()
	if err == nil {
		err = g.repair(ctx, note)
	}
	if err != nil {
		return g.fail("repair", err)
	}
	g.ring(ctx)
	return nil
}

func (g *Gate) repair(ctx context.Context, note Note) error {
	var seen sighting
	switch err := g.doc.Read(ctx, &seen); {
	case seen.Fault == nil && err != nil:
		return err
	case seen.Fault == nil && seen.ETag == "":
		return storage.ErrNotFound
	case seen.Fault == nil:
		return fmt.Errorf("%w: it is a gate; open or close it", storage.ErrInvalid)
	}
	return g.write(ctx, &seen, document{By: note.By, Why: note.Why, ID: rand.Text()})
}
