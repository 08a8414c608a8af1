package millracetest

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// A recorder notes what takes effect in a store: messages that are sent, documents that are written, and effects that
// are noted as done. Everybody's faults are above it.
type recorder struct {
	// wrote is called after a document was written. It is called concurrently. Set it before the store is used.
	wrote func()

	mu     sync.Mutex
	sent   []*sent                     // each message once, in the order in which they were seen first; under mu
	lanes  map[string]string           // the queues that have lanes, by the names of the lanes
	byID   map[sentKey]*sent           // under mu
	timers map[string][]*wire.Envelope // each copy that was sent with a delay, by queue; under mu
	bodies map[string][]byte           // of claim-checked messages, by their keys; under mu
	docs   map[docPlace]*history       // under mu
	folded map[[32]byte][]wire.Folded  // what a write folds, by a digest of it; under mu
	writes int                         // of documents so far; under mu
	seen   int                         // messages received so far; under mu
	undone *cancellations
}

// sent is a message in a queue.
type sent struct {
	queue     string
	e         wire.Envelope // has its data
	copies    int           // how often it was sent
	cancelled int           // how many of these were cancelled
}

type sentKey struct {
	queue, id string
	content   [32]byte
}

// docPlace is where a document is.
type docPlace struct{ container, key string }

// claims is the container of claim-checked bodies; see internal/wire. once is the table of handlers.ReactOnce.
const (
	claims = "claims"
	once   = "once"
)

func (r *recorder) noteSent(queue string, m storage.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.message(queue, m.Body)
	if x == nil {
		return
	}
	x.copies++
	if x.e.Due.After(time.Now()) {
		r.timers[queue] = append(r.timers[queue], &x.e)
	}
}

func (r *recorder) noteReceived(queue string, d storage.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.message(queue, d.Body)
	if x == nil {
		return
	}
	r.seen++
	if !x.e.Due.IsZero() {
		r.undone.wasReceived(claim{queue, d.Receipt}, x)
	}
}

// noteFound notes a message that was found by its key, so that it can be cancelled.
func (r *recorder) noteFound(queue string, d storage.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.message(queue, d.Body); x != nil && d.Receipt != "" {
		r.undone.wasFound(claim{queue, d.Receipt}, x)
	}
}

// noteDeleted notes a deletion, which may cancel a message.
func (r *recorder) noteDeleted(c claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.undone.by(c)
	if x == nil {
		return
	}
	x.cancelled++
	if i := slices.Index(r.timers[c.queue], &x.e); i >= 0 {
		r.timers[c.queue] = slices.Delete(r.timers[c.queue], i, i+1)
	}
}

// noteRemoved notes that a document was deleted.
func (r *recorder) noteRemoved(container, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.docs[docPlace{container, key}]; h != nil {
		h.unclear = true
	}
}

// message returns a message, and notes it if it isn't known; nil if it can't be decoded. r.mu is held.
func (r *recorder) message(queue string, body []byte) *sent {
	e, err := wire.Decode(body)
	if err != nil {
		return nil
	}
	if e.DataRef != "" {
		e.Data, e.DataRef = r.bodies[strings.TrimPrefix(e.DataRef, claims+"/")], ""
	}
	e.Attempts, e.Hangs, e.HandBacks, e.LastError, e.FirstFailed = 0, 0, 0, "", time.Time{}
	if whole, ok := r.lanes[queue]; ok {
		queue = whole
	}
	k := sentKey{queue, e.ID, e.Content()}
	if r.byID[k] == nil {
		r.byID[k] = &sent{queue: queue, e: e}
		r.sent = append(r.sent, r.byID[k])
	}
	return r.byID[k]
}

func (r *recorder) noteBody(key string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies[key] = append([]byte(nil), body...)
}

func (r *recorder) noteWritten(container, key string, body []byte) {
	r.mu.Lock()
	at := docPlace{container, key}
	h := r.docs[at]
	if h == nil {
		h = &history{docPlace: at}
	}
	isDocument := h.add(body, r.folded[writeOf(container, key, body)])
	if isDocument {
		r.docs[at] = h
		r.writes++
	}
	r.mu.Unlock()
	if isDocument && r.wrote != nil {
		r.wrote()
	}
}

// noteFolded notes what a write folds that is about to be made. Others may win the race and make another.
func (r *recorder) noteFolded(container, key string, body []byte, messages []wire.Folded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folded[writeOf(container, key, body)] = messages
}

func writeOf(container, key string, body []byte) [32]byte {
	return sha256.Sum256(append([]byte(container+"\x00"+key+"\x00"), body...))
}

// written returns how many writes of documents there were so far.
func (r *recorder) written() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

func all(*wire.Envelope) bool { return true }

// waiting counts the messages of a queue that are not due, of those that some chooses. It is called with r.mu held.
func (r *recorder) waiting(queue string, some func(*wire.Envelope) bool) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.timers[queue] = slices.DeleteFunc(r.timers[queue], func(e *wire.Envelope) bool { return !e.Due.After(now) })
	for _, e := range r.timers[queue] {
		if some(e) {
			n++
		}
	}
	return n
}

// read reads the histories of all documents.
func (r *recorder) read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.docs {
		h.read()
	}
}

// counts returns how many messages were received, and how many were sent.
func (r *recorder) counts() (seen, sent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, len(r.sent)
}

// noteRows returns the rows that may hold the note of a message's effect; see handlers.ReactOnce.
func noteRows(group, id string) (rows []string) {
	for _, key := range []string{
		"t-" + wire.DerivedID(id, once, group), "u-" + wire.DerivedID(id, once, group), "u-" + wire.DerivedID("keyed "+id, once, group),
	} {
		rows = append(rows, "row "+once+"/"+group+"/"+key)
	}
	return rows
}

// divide notes the lanes of a program's queues. It is called before anything is sent.
func (r *recorder) divide(c *channel.Channels) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lanes = map[string]string{}
	for queue, x := range c.Routes().Lanes() {
		for _, name := range x.Names(queue) {
			r.lanes[name] = queue
		}
	}
}
