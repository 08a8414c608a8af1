package pubsub

import (
	"context"
	"sync"
	"time"
)

const (
	// remember is how long at least a desk knows what it has given. A publisher repeats a request within GiveLimit.
	remember = 5 * time.Second

	// A desk keeps that many IDs however old they are, because this process may have been stopped for long.
	fewGiven = 1024

	// maxGiven bounds the IDs. A desk that has so many young ones gives nothing more: then nobody there takes anything.
	maxGiven = 1 << 16
)

// A Desk answers the requests of other stores. It gives nothing twice, however often a request comes.
type Desk struct {
	Receivers *Receivers

	mu    sync.Mutex
	given map[ID]*given
	order []*given // by time
}

// given is a request to give, under way or answered.
type given struct {
	id   ID
	at   time.Time
	done chan struct{} // closed when n and ok are set
	n    int
	ok   bool
}

// Answer returns the count for the answer to a request. ok is false if there is none.
func (d *Desk) Answer(ctx context.Context, r Request) (n int, ok bool) {
	if r.Kind == Ask {
		n, _ = d.Receivers.Call(ctx, r) // a receiver that hangs takes nothing
		return n, true
	}
	g, first := d.note(r.ID)
	switch {
	case g == nil:
		return 0, true
	case first:
		n, err := d.Receivers.Call(ctx, r)
		g.n, g.ok = n, err == nil || r.Kind == GiveAll
		close(g.done)
	}
	select {
	case <-g.done:
		return g.n, g.ok
	case <-ctx.Done():
		return 0, false
	}
}

// note returns what is known of an ID, and whether this is its first request. It returns nil if there is no room.
func (d *Desk) note(id ID) (g *given, first bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if g = d.given[id]; g != nil {
		return g, false
	}
	for len(d.order) > fewGiven && now.Sub(d.order[0].at) > remember {
		delete(d.given, d.order[0].id)
		d.order = d.order[1:]
	}
	if len(d.order) >= maxGiven {
		return nil, false
	}
	if d.given == nil {
		d.given = map[ID]*given{}
	}
	g = &given{id: id, at: now, done: make(chan struct{})}
	d.given[id] = g
	d.order = append(d.order, g)
	return g, true
}
