package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// Subscribe implements driver.Listener. The receiver is there before the socket is, so that the loss of the socket is
// told to it. The loss of an earlier socket is told before.
func (l listener) Subscribe(_ context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	l.s.peers.CheckSocket()
	h, err := l.s.receivers.Subscribe(topic, receiver)
	if err != nil {
		return nil, err
	}
	if err := l.s.peers.Serve(); err != nil {
		h.Close()
		if errors.Is(err, peers.ErrPathTooLong) {
			return nil, fmt.Errorf("%w: other processes can't tell this one anything: %w", driver.ErrUnsupported, err)
		}
		return nil, fmt.Errorf("%w: no socket in the folder beside the database: %w", driver.ErrUnavailable, err)
	}
	return h, nil
}

// Publish implements driver.Listener.
func (l listener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	return pubsub.Publish(ctx, l.s.receivers, sockets{l.s.peers}, topic, data, one)
}

// sockets implements pubsub.Transport. Any store on the file may have receivers, and each says so itself.
type sockets struct{ peers *peers.Peers }

// Peers implements pubsub.Transport.
func (t sockets) Peers(context.Context, string) ([]pubsub.Peer, func(), error) {
	others, err := t.peers.Others()
	list := make([]pubsub.Peer, len(others.Names))
	for i, name := range others.Names {
		list[i] = &pubsub.StreamPeer{Dial: func(ctx context.Context) (net.Conn, error) { return others.Dial(ctx, name) }}
	}
	done := func() {
		for _, p := range list {
			p.(*pubsub.StreamPeer).Close()
		}
		others.Close()
	}
	if err != nil {
		err = fmt.Errorf("%w: can't look into the folder beside the database: %w", driver.ErrUnavailable, err)
	}
	return list, done, err
}
