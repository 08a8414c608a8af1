package telling

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/storage/driver"
)

// A basket is an ear that has room for so much.
type basket struct {
	mu   sync.Mutex
	room int
	got  []string
}

func (b *basket) ear(data []byte, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most == 0 {
		return b.room
	}
	n := min(most, b.room)
	b.room -= n
	for range n {
		b.got = append(b.got, string(data))
	}
	clear(data) // it is the ear's own
	return n
}

func (b *basket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got)
}

func hear(t *testing.T, e *Ears, topic string, ear driver.Receiver) *Hearing {
	t.Helper()
	h, err := e.Hear(topic, ear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// world implements Transport for peers that a test makes.
type world struct {
	peers []Peer
	err   error
}

func (w world) Peers(context.Context, string) ([]Peer, func(), error) {
	return w.peers, func() {}, w.err
}

// peerFunc is a Peer.
type peerFunc func(ctx context.Context, r Request) (int, error)

func (f peerFunc) Call(ctx context.Context, r Request) (int, error) { return f(ctx, r) }

// answers is a Peer that says what it would take, and then takes something else.
func answers(ask, give int, err error) Peer {
	return peerFunc(func(_ context.Context, r Request) (int, error) {
		if r.Kind == Ask {
			return ask, nil
		}
		return give, err
	})
}

// silent never answers what it is told.
func silent(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// stopped is a Peer that never answers.
func stopped() Peer {
	return peerFunc(func(ctx context.Context, _ Request) (int, error) { return silent(ctx) })
}

// tell wants a count.
func tell(t *testing.T, own *Ears, others Transport, one bool, want int) {
	t.Helper()
	if n, err := Tell(t.Context(), own, others, "topic", []byte("data"), one); n != want || err != nil {
		t.Errorf("one %v: heard by %d, error %v; want %d", one, n, err, want)
	}
}

// remote returns a Peer that is reached by streams, and whose ears are e. It ends with the test.
func remote(t *testing.T, e *Ears) *StreamPeer {
	t.Helper()
	desk := &Desk{Ears: e}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	p := &StreamPeer{Dial: func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		all.Go(func() { desk.Serve(ctx, there) })
		return here, nil
	}}
	t.Cleanup(func() {
		p.Close()
		cancel()
		all.Wait()
	})
	return p
}

// logged returns Ears that log.
func logged(log *bytes.Buffer) *Ears {
	return &Ears{Logger: slog.New(slog.NewTextHandler(log, nil))}
}

func wantError(t *testing.T, err error, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("error %v; want %v", err, kind)
		}
	}
}
