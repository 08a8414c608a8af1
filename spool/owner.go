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

// readOwner returns the owner of a file, or the zero owner if it has none.
func readOwner(ctx context.Context, local *storage.Store) (o owner, err error) {
	b, err := local.Blobs(owners).Get(ctx, ownerKey, "")
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

// claim makes the file this program's. A file with another program's messages, or with those for another store, stays
// as it is.
func (s *Spool) claim(ctx context.Context) error {
	mine := owner{s.outbox.Source, s.channels.Store().Props().Place}
	its, err := readOwner(ctx, s.local)
	switch {
	case err != nil:
		return err
	case its == mine:
		return nil
	case its != owner{} && !its.is(mine) && s.Waiting() > 0:
		return fmt.Errorf("spool: %w: %s keeps messages of %s, and this is %s: give each program, and each store, its own file. "+
			"Start the other one once more to have them sent. If its name or its store's place has changed, the verb spool release gives them to the program that opens the file next",
			storage.ErrInvalid, storage.Quote(s.path), its, mine)
	}
	data, err := json.Marshal(mine)
	if err == nil {
		_, err = s.local.Blobs(owners).Put(ctx, ownerKey, data, storage.Condition{})
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}
