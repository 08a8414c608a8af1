package wire

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/storage"
)

// claims is the container of claim-checked bodies. A reference is claims/QUEUE/UUID.
const claims = "claims"

// StowedQueue stands for a queue's name in the references to the bodies of stowed envelopes. So no queue may have it:
// its messages could name these bodies.
const StowedQueue = "stowed"

// newBodyKey returns the key of a new body for a message of a queue.
func newBodyKey(queue string) string { return queue + "/" + uuid.Must(uuid.NewV7()).String() }

// CheckDataRef refuses a message whose dataref names the body of a message in another queue.
func (e *Envelope) CheckDataRef(queue string) error {
	if e.DataRef == "" || strings.HasPrefix(e.DataRef, claims+"/"+queue+"/") {
		return nil
	}
	return fmt.Errorf("%w: dataref: %s is not a body of queue %s", ErrAttribute, storage.Quote(e.DataRef), queue)
}

// parseDataRef returns the blob's key. A reference comes from a message, so parseDataRef accepts only the form that
// this package writes, which can name no blob outside of the container of bodies.
func parseDataRef(ref string) (key string, err error) {
	key, ok := strings.CutPrefix(ref, claims+"/")
	queue, id, ok2 := strings.Cut(key, "/")
	if !ok || !ok2 || storage.CheckName(queue) != nil || len(id) != 36 || uuid.Validate(id) != nil {
		return "", fmt.Errorf("%s: want %s/QUEUE/UUID", storage.Quote(ref), claims)
	}
	return key, nil
}
