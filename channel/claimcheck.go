package channel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/storage"
)

const (
	// MaxData is the most bytes that the body of a message may have.
	MaxData = 16 << 20

	claims = "claims" // the container of claim-checked bodies; a reference is claims/QUEUE/UUID

	// historyRoom bytes stay free in a message, so that a failed attempt can always be written into it.
	historyRoom = 4 << 10
)

// Packed holds messages ready to be sent, and the claim-checked bodies that were written for them.
type Packed struct {
	Sends []storage.Send
	refs  []string
}

// Pack encodes envelopes with their data for all queues that their kinds go to. Bodies that don't fit a
// message are written to blobs, one for each copy. When it fails nothing is left behind.
func (c *Channels) Pack(ctx context.Context, envelopes ...Envelope) (Packed, error) {
	return c.packBy(ctx, 1, envelopes)
}

// packBy is Pack by at most the given number of goroutines.
func (c *Channels) packBy(ctx context.Context, goroutines int, envelopes []Envelope) (Packed, error) {
	queues := make([][]string, len(envelopes))
	for i := range envelopes {
		var err error
		if queues[i], err = c.routes.queues(envelopes[i].Kind); err != nil {
			return Packed{}, err
		}
	}
	return c.pack(ctx, goroutines, envelopes, queues)
}

// PackFor encodes one envelope with its data for one queue, whatever the routes say.
func (c *Channels) PackFor(ctx context.Context, queue string, e Envelope) (Packed, error) {
	return c.pack(ctx, 1, []Envelope{e}, [][]string{{queue}})
}

// checkInAtOnce is how many bodies are written together, because a distant store takes long for each.
const checkInAtOnce = 16

// pack encodes envelopes, each for its own list of queues.
func (c *Channels) pack(ctx context.Context, goroutines int, envelopes []Envelope, queues [][]string) (p Packed, err error) {
	bodies, err := encode(goroutines, envelopes)
	if err != nil {
		return Packed{}, err
	}
	most := c.store.Props().MaxMessage - historyRoom
	p.Sends = make([]storage.Send, 0, len(envelopes))
	var large []func(context.Context) error
	for i, body := range bodies {
		e := &envelopes[i]
		for _, q := range queues[i] {
			n := len(p.Sends)
			p.Sends = append(p.Sends, storage.Send{Queue: q, Message: storage.Message{Body: body}})
			if len(body) <= most {
				continue
			}
			key := q + "/" + NewID()
			p.refs = append(p.refs, claims+"/"+key)
			large = append(large, func(ctx context.Context) (err error) {
				p.Sends[n].Message.Body, err = c.checkIn(ctx, e, key)
				return err
			})
		}
	}
	if len(large) == 0 { // without large bodies no context is needed
		return p, nil
	}
	g, together := errgroup.WithContext(ctx)
	g.SetLimit(checkInAtOnce)
	for _, checkIn := range large {
		g.Go(func() error { return checkIn(together) })
	}
	if err := g.Wait(); err != nil {
		c.Discard(ctx, p)
		return Packed{}, err
	}
	return p, nil
}

// encodeAtOnce is how many envelopes one goroutine encodes. That takes a hundred times as long as to start it.
const encodeAtOnce = 64

// encode encodes envelopes. It divides many of them among several goroutines.
func encode(goroutines int, envelopes []Envelope) ([][]byte, error) {
	bodies := make([][]byte, len(envelopes))
	some := func(first, end int) error {
		for i := first; i < end; i++ {
			var err error
			if bodies[i], err = envelopes[i].Encode(); err != nil {
				return fmt.Errorf("channel: %s: %w", envelopes[i].Kind, err)
			}
		}
		return nil
	}
	if goroutines == 1 || len(envelopes) <= encodeAtOnce {
		return bodies, some(0, len(envelopes))
	}
	var g errgroup.Group
	g.SetLimit(goroutines)
	for first := 0; first < len(envelopes); first += encodeAtOnce {
		g.Go(func() error { return some(first, min(first+encodeAtOnce, len(envelopes))) })
	}
	return bodies, g.Wait()
}

// checkIn writes the body to a blob and encodes the envelope that refers to it. After an error there may still be a
// blob.
func (c *Channels) checkIn(ctx context.Context, e *Envelope, key string) ([]byte, error) {
	if _, err := c.store.Blobs(claims).Put(ctx, key, e.Data, storage.Condition{IfAbsent: true}); err != nil {
		return nil, fmt.Errorf("channel: %s: claim check: %w", e.Kind, err)
	}
	slim := *e
	slim.Data, slim.DataRef = nil, claims+"/"+key
	body, err := slim.Encode()
	if err == nil && len(body) > c.store.Props().MaxMessage-historyRoom {
		err = fmt.Errorf("%w: attributes of %d bytes", storage.ErrTooLarge, len(body))
	}
	if err != nil {
		return nil, fmt.Errorf("channel: %s: %w", e.Kind, err)
	}
	return body, nil
}

// stowed is the name under which the bodies of stowed envelopes lie among the claims. Bodies of messages lie there
// under the name of their queue.
const stowed = "stowed"

// Stow encodes an envelope to be kept in a document until it is sent. A large body goes to a blob of its own, because
// each copy that is sent owns its body.
func (c *Channels) Stow(ctx context.Context, e Envelope) ([]byte, error) {
	raw, err := e.Encode()
	if err == nil && len(raw) > c.store.Props().MaxMessage-historyRoom {
		key := stowed + "/" + NewID()
		if raw, err = c.checkIn(ctx, &e, key); err != nil {
			c.Discard(ctx, Packed{refs: []string{claims + "/" + key}})
		}
	}
	return raw, err
}

// Unstow returns a stowed envelope, with its data.
func (c *Channels) Unstow(ctx context.Context, raw []byte) (Envelope, error) {
	e, err := Decode(raw)
	if err != nil {
		return e, err
	}
	err = c.Fetch(ctx, &e)
	e.DataRef = ""
	return e, err
}

// DropStowed deletes the body that a stowed envelope keeps in a blob. Call it once the envelope has been sent and no
// document keeps it any more, or when certainly no document keeps it. A failed deletion leaves an orphan.
func (c *Channels) DropStowed(ctx context.Context, raw []byte) {
	if e, err := Decode(raw); err == nil && e.DataRef != "" {
		_ = c.Release(context.WithoutCancel(ctx), e.DataRef)
	}
}

// Discard deletes the claim-checked bodies of messages that were certainly not sent. A failed deletion leaves an
// orphan.
func (c *Channels) Discard(ctx context.Context, p Packed) {
	for _, ref := range p.refs {
		_ = c.Release(context.WithoutCancel(ctx), ref)
	}
}

// Fetch reads a claim-checked body into the envelope. The error matches [ErrDataLost] when the body is gone.
func (c *Channels) Fetch(ctx context.Context, e *Envelope) error {
	if e.DataRef == "" || e.Data != nil {
		return nil
	}
	key, err := parseDataRef(e.DataRef)
	if err != nil {
		return fmt.Errorf("%w: dataref: %w", ErrAttribute, err)
	}
	blob, err := c.store.Blobs(claims).Get(ctx, key, "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: %s", ErrDataLost, storage.Quote(e.DataRef))
	case err != nil:
		return fmt.Errorf("channel: fetch claim-checked body: %w", err)
	case len(blob.Body) > MaxData:
		return fmt.Errorf("%w: a claim-checked body of %d bytes; at most %d", storage.ErrTooLarge, len(blob.Body), MaxData)
	}
	e.Data = blob.Body
	return nil
}

// CheckDataRef refuses a message whose dataref names the body of a message in another queue.
func (e *Envelope) CheckDataRef(queue string) error {
	if e.DataRef == "" || strings.HasPrefix(e.DataRef, claims+"/"+queue+"/") {
		return nil
	}
	return fmt.Errorf("%w: dataref: %s is not a body of queue %s", ErrAttribute, storage.Quote(e.DataRef), queue)
}

// Release deletes a claim-checked body, after its message has been deleted. A body that is gone already is no error.
func (c *Channels) Release(ctx context.Context, dataRef string) error {
	key, err := parseDataRef(dataRef)
	if err != nil {
		return fmt.Errorf("%w: dataref: %w", ErrAttribute, err)
	}
	if err := c.store.Blobs(claims).Delete(ctx, key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("channel: delete claim-checked body: %w", err)
	}
	return nil
}

// parseDataRef returns the blob's key. A reference comes from a message, so only the one form that this package writes
// is accepted: it can name nothing outside the claims.
func parseDataRef(ref string) (key string, err error) {
	key, ok := strings.CutPrefix(ref, claims+"/")
	queue, id, ok2 := strings.Cut(key, "/")
	if !ok || !ok2 || storage.CheckName(queue) != nil || len(id) != 36 || uuid.Validate(id) != nil {
		return "", fmt.Errorf("%s: want %s/QUEUE/UUID", storage.Quote(ref), claims)
	}
	return key, nil
}
