package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// idleLimit is how long a publisher may keep a connection without a request.
	idleLimit = 5 * time.Second

	// writeLimit is how long it may leave an answer unread.
	writeLimit = time.Second
)

// Serve answers the requests on a stream, until the stream ends, it brings something that is no request, or ctx ends. A
// request is preceded by its length in 2 bytes. An answer has no length, since all are as long.
func (d *Desk) Serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, 2+MaxRequest)
	for {
		if conn.SetReadDeadline(time.Now().Add(idleLimit)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(buf))
		if size > MaxRequest {
			return
		}
		if _, err := io.ReadFull(conn, buf[:size]); err != nil {
			return
		}
		r, ok := ReadRequest(buf[:size])
		if !ok {
			return
		}
		n, ok := d.Answer(ctx, r)
		if !ok || conn.SetWriteDeadline(time.Now().Add(writeLimit)) != nil {
			return
		}
		if _, err := conn.Write(AppendAnswer(nil, r.ID, n)); err != nil {
			return
		}
	}
}

// A StreamPeer is a Peer that is reached by a stream. One goroutine uses it at a time.
type StreamPeer struct {
	// Dial opens a stream. An error means that nothing has been sent.
	Dial func(ctx context.Context) (net.Conn, error)

	conn net.Conn
}

// Close closes the stream.
func (p *StreamPeer) Close() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

// Call implements Peer. A stream that breaks is opened once more, and the request repeated: the other side closes
// streams that it takes for idle.
func (p *StreamPeer) Call(ctx context.Context, r Request) (int, error) {
	kept := p.conn != nil
	n, err := p.try(ctx, r)
	if err == nil || !kept || ctx.Err() != nil {
		return n, err
	}
	sent := !errors.Is(err, ErrGone)
	n, again := p.try(ctx, r)
	if again != nil && sent {
		return 0, err
	}
	return n, again
}

// try makes a request once.
func (p *StreamPeer) try(ctx context.Context, r Request) (int, error) {
	if p.conn == nil {
		conn, err := p.Dial(ctx)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrGone, err)
		}
		p.conn = conn
	}
	n, err := exchange(ctx, p.conn, r)
	if err != nil {
		p.Close()
	}
	return n, err
}

// exchange writes a request and reads its answer.
func exchange(ctx context.Context, conn net.Conn, r Request) (int, error) {
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	b := r.Append(make([]byte, 2, 2+MaxRequest))
	binary.BigEndian.PutUint16(b, uint16(len(b)-2))
	if n, err := conn.Write(b); err != nil && n < len(b) {
		return 0, fmt.Errorf("%w: %w", ErrGone, err) // no whole request has left
	}
	var answer [AnswerSize]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return 0, err
	}
	id, n, ok := ReadAnswer(answer[:])
	if !ok || id != r.ID {
		return 0, errors.New("the answer is another one's")
	}
	return n, nil
}
