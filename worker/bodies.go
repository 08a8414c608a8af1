package worker

import (
	"slices"
	"sync"

	"github.com/millrace-go/millrace/channel"
)

// bodyRoom bounds the claim-checked bodies in hand by their bytes. The size of a body is known once it is fetched;
// until then it counts as the largest. Whatever makes room returns the waiting messages that now have room: the caller
// lets them be fetched.
type bodyRoom struct {
	mu         sync.Mutex
	closed     bool // no message waits
	most, used int
	waiting    fifo[*message] // for room
}

// setClosed closes the room, or opens it again. A closed room returns all waiting messages.
func (r *bodyRoom) setClosed(closed bool) (all []*message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
	for closed && r.waiting.len() > 0 {
		all = append(all, r.waiting.pop())
	}
	return all
}

// enter makes room for a message's body and returns true. Without room it queues the message and returns false. When
// the room is closed, a message may pass without it.
func (r *bodyRoom) enter(m *message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || m.bodyBytes > 0 {
		return true
	}
	if !r.fits() {
		r.waiting.push(m)
		return false
	}
	r.resize(m, channel.MaxData)
	return true
}

// fetched notes the size of a message's body.
func (r *bodyRoom) fetched(m *message) (next []*message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resize(m, len(m.envelope.Data))
}

// leave gives back the room of a message.
func (r *bodyRoom) leave(m *message) (next []*message) {
	if m.envelope.DataRef == "" {
		return nil // it never had any
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resize(m, 0)
}

// any reports that f is true of a message that waits.
func (r *bodyRoom) any(f func(*message) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.waiting.all(), f)
}

// takeOut takes out the waiting messages of which out is true.
func (r *bodyRoom) takeOut(out func(*message) bool) []*message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting.takeOut(out)
}

func (r *bodyRoom) fits() bool { return r.used == 0 || r.used+channel.MaxData <= r.most }

// resize changes the room of a message. The caller holds the mutex.
func (r *bodyRoom) resize(m *message, to int) (next []*message) {
	r.used += to - m.bodyBytes
	m.bodyBytes = to
	for r.waiting.len() > 0 && r.fits() {
		next = append(next, r.waiting.pop())
		next[len(next)-1].bodyBytes = channel.MaxData
		r.used += channel.MaxData
	}
	return next
}
