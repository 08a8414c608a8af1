package settings

import (
	"context"

	"github.com/millrace-go/millrace/storage"
)

const joinTries = 10

// join is called when this node has written its first row, or one after a silence. Somebody who read the rows before
// that may still settle a candidate, or end its last stage, without this node's answer. That is a guarded write of the
// document that they read before the rows. So join writes the document once more: then they must read both again. Where
// there is no candidate, whoever ends the next one reads the rows later. joined reports that nobody can do that any
// more, and changed that the document has changed.
func (b book) join(ctx context.Context, seen *sighting) (joined, changed bool) {
	before := seen.etag
	for range joinTries {
		if b.read(ctx, seen) != nil {
			break // it tries again with its next row
		}
		if seen.doc.Candidate == nil {
			joined = true
			break
		}
		err := b.write(ctx, seen, seen.doc)
		if err == nil {
			joined = true
			break
		}
		if !storage.LostRace(err) {
			break
		}
	}
	return joined, seen.etag != before
}
