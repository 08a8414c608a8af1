package pubsub

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

// A basket is a receiver that has room for so much.
type basket struct {
	mu   sync.Mutex
	room int
	got  []string
}

func (b *basket) receiver(data []byte, most int) int {
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
	clear(data) // it is the receiver's own
	return n
}

func (b *basket) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got)
}

func subscribe(t *testing.T, e *Receivers, topic string, receiver driver.Receiver) *Registration {
	t.Helper()
	h, err := e.Subscribe(topic, receiver)
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

// silent never answers.
func silent(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// stopped is a Peer that never answers.
func stopped() Peer {
	return peerFunc(func(ctx context.Context, _ Request) (int, error) { return silent(ctx) })
}

// publish wants a count.
func publish(t *testing.T, own *Receivers, others Transport, one bool, want int) {
	t.Helper()
	if n, err := Publish(t.Context(), own, others, "topic", []byte("data"), one); n != want || err != nil {
		t.Errorf("one %v: received by %d, error %v; want %d", one, n, err, want)
	}
}

// remote returns a Peer that is reached by streams, and whose receivers are e. It ends with the test.
func remote(t *testing.T, e *Receivers) *StreamPeer {
	t.Helper()
	desk := &Desk{Receivers: e}
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

// logged returns Receivers that log.
func logged(log *bytes.Buffer) *Receivers {
	return &Receivers{Logger: slog.New(slog.NewTextHandler(log, nil))}
}

func wantError(t *testing.T, err error, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			t.Errorf("error %v; want %v", err, kind)
		}
	}
}
