package doorbell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
)

const (
	// repeatAfter is the time until an unanswered request is repeated, and doubles each time.
	repeatAfter = 40 * time.Millisecond

	// silentLimit is how long a publication waits for a listener that hasn't answered the last one. It has probably
	// crashed.
	silentLimit = 60 * time.Millisecond

	// silentFor is how long that limit holds. Then the listener gets the full time once: its path may just be slow.
	silentFor = 30 * time.Second
)

// asks are the requests that wait for an answer of another process.
type asks struct {
	clock clock
	send  *sender
	all   sync.WaitGroup // the goroutine that reads answers

	mu      sync.Mutex
	reading bool
	closed  bool
	waiting map[pubsub.ID]*ask
	silent  map[string]time.Duration // when listeners last had the full time and didn't answer, by the IDs of their rows
	reached map[string]bool          // listeners that have answered at some time, likewise
}

// An ask is a request that waits for an answer.
type ask struct {
	key     []byte
	answers chan int // of capacity 1
}

// Peers implements pubsub.Transport. It reads the rows afresh, because a listener may have come a moment ago.
func (a *asks) Peers(ctx context.Context, topic string) ([]pubsub.Peer, func(), error) {
	rows, began, err := a.send.dir.read(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	found, open := a.send.find(rows, began, topic)
	if !open {
		return nil, func() {}, fmt.Errorf("%w: no socket by which to reach others", driver.ErrUnavailable)
	}
	a.begin(rows, len(found) > 0)
	var list []pubsub.Peer
	for _, l := range found {
		list = append(list, &peer{a, l})
	}
	return list, func() {}, nil
}

// A peer implements pubsub.Peer.
type peer struct {
	asks *asks
	l    listener
}

// String tells an operator where the peer listens.
func (p *peer) String() string {
	var all []string
	for _, a := range p.l.addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, " or ")
}

// Call implements pubsub.Peer. It repeats the request until it is answered.
func (p *peer) Call(ctx context.Context, r pubsub.Request) (int, error) {
	a := p.asks
	answers, hurry := a.add(r.ID, p.l, a.clock.now())
	defer a.remove(r.ID)
	if hurry {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silentLimit)
		defer cancel()
	}
	wait := repeatAfter
	for try := 0; ; try++ {
		if !a.send.request(p.l, try, &r) && try == 0 {
			return 0, fmt.Errorf("%w: none of its addresses can be reached", pubsub.ErrGone)
		}
		timer := time.NewTimer(wait)
		select {
		case n := <-answers:
			timer.Stop()
			a.answered(p.l.id)
			return n, nil
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) && a.unanswered(p.l.id, a.clock.now()) {
				return 0, fmt.Errorf("%w: %w", pubsub.ErrUnreached, context.Cause(ctx))
			}
			return 0, context.Cause(ctx)
		case <-timer.C:
		}
		wait *= 2
	}
}

// begin forgets what it knows of listeners that have no row any more, and begins to read answers.
func (a *asks) begin(rows []listener, read bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	still, reached := map[string]time.Duration{}, map[string]bool{}
	for _, l := range rows {
		if since, ok := a.silent[l.id]; ok {
			still[l.id] = since
		}
		if a.reached[l.id] {
			reached[l.id] = true
		}
	}
	a.silent, a.reached = still, reached
	if read && !a.reading && !a.closed {
		a.reading = true
		a.all.Go(a.read)
	}
}

// close waits until no answer is read any more. The socket is closed.
func (a *asks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.all.Wait()
}

// add adds a request. hurry means that the listener has been silent lately.
func (a *asks) add(id pubsub.ID, l listener, now time.Duration) (answers <-chan int, hurry bool) {
	x := &ask{l.Key, make(chan int, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[pubsub.ID]*ask{}
	}
	a.waiting[id] = x
	since, silent := a.silent[l.id]
	if silent && now-since >= silentFor {
		a.silent[l.id] = now // others at the same time needn't wait for it, too
		silent = false
	}
	return x.answers, silent
}

func (a *asks) remove(id pubsub.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// answered notes that a listener has answered.
func (a *asks) answered(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.silent, id)
	if a.reached == nil {
		a.reached = map[string]bool{}
	}
	a.reached[id] = true
}

// unanswered notes that a listener hasn't answered in time. It reports that the listener has never answered: nothing
// may pass between the two processes. One that has answered before has probably crashed.
func (a *asks) unanswered(id string, now time.Duration) (never bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.silent[id]; !ok {
		a.silent[id] = now
	}
	return !a.reached[id]
}

// key returns the key of the listener that a request went to.
func (a *asks) key(id pubsub.ID) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.waiting[id]; x != nil {
		return x.key
	}
	return nil
}

// read receives answers until the socket for sending is closed.
func (a *asks) read() {
	var b budget
	buf := make([]byte, answerSize+1)
	for {
		n, _, err := a.send.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		id, count, ok := readAnswer(buf[:max(n, 0)], a.key)
		if err != nil || !ok {
			if !b.pay(a.send.ctx, a.clock.now()) {
				return
			}
			continue
		}
		a.mu.Lock()
		if x := a.waiting[id]; x != nil {
			select {
			case x.answers <- count:
			default: // a second answer, to a repeated request
			}
		}
		a.mu.Unlock()
	}
}
