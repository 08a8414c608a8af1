package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

// owners is the container with the one blob that says whose the file is.
const (
	owners   = "owner"
	ownerKey = "owner"
)

// An owner is the program whose messages are in a file, and the store for which they are.
type owner struct {
	Program string `json:"program"` // the source of its messages
	Store   string `json:"store"`   // see storage.Props.Place
}

// is reports that two owners are one. A store whose place nobody knows may be any.
func (o owner) is(other owner) bool {
	return o.Program == other.Program && (o.Store == other.Store || o.Store == "" || other.Store == "")
}

func (o owner) String() string {
	if o.Store == "" {
		return "program " + storage.Quote(o.Program)
	}
	return fmt.Sprintf("program %s for store %s", storage.Quote(o.Program), storage.Quote(o.Store))
}

// owner returns the owner of the file, or the zero owner if it has none.
func (f *file) owner(ctx context.Context) (o owner, err error) {
	b, err := f.local.Blobs(owners).Get(ctx, ownerKey, "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("spool: %w", err)
	}
	if err := json.Unmarshal(b.Body, &o); err != nil || o.Program == "" {
		return owner{}, fmt.Errorf("spool: %w: the file doesn't tell whose it is any more; the verb spool release gives it to the program that opens it next", storage.ErrInvalid)
	}
	return o, nil
}

// claim makes the file a program's. A file in which messages of another program wait, or messages for another store,
// stays as it is.
func (f *file) claim(ctx context.Context, mine owner, waiting bool) error {
	its, err := f.owner(ctx)
	switch {
	case err != nil:
		return err
	case its == mine:
		return nil
	case its != owner{} && !its.is(mine) && waiting:
		return fmt.Errorf("spool: %w: %s keeps messages of %s, and this is %s: give each program, and each store, its own file. "+
			"Start the other one once more to have them sent. If its name or its store's place has changed, the verb spool release gives them to the program that opens the file next",
			storage.ErrInvalid, storage.Quote(f.path), its, mine)
	}
	data, err := json.Marshal(mine)
	if err == nil {
		_, err = f.local.Blobs(owners).Put(ctx, ownerKey, data, storage.Condition{})
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// disclaim makes the file nobody's.
func (f *file) disclaim(ctx context.Context) error {
	err := f.local.Blobs(owners).Delete(ctx, ownerKey, storage.Condition{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}
