package poison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// Retry sends a message back to its queue, with its ID and without its history. A message that has no time counts from
// its first failure. It is also the decision to repeat an effect of handlers.ReactOnce whose outcome is unknown. If it
// is interrupted, the message may be in both places, with a body for each; retrying it again is harmless. The error
// matches [storage.ErrNotFound] if there is no message with that key. An entry that can't be read stays, and that is an
// error.
func (p *Queue) Retry(ctx context.Context, key string) error {
	m, err := p.Get(ctx, key)
	if err != nil {
		return err
	}
	b, err := p.Back(ctx, m)
	if err != nil {
		return err
	}
	if _, err := SendBack(ctx, p.channels, nil, b); err != nil {
		return err
	}
	return b.Remove(ctx)
}

// A Back is a message that goes back to its queue: what is sent, and the entry that is removed then.
type Back struct {
	queue  *Queue
	key    string
	etag   storage.ETag
	packed wire.Packed
	ref    string // of the body of the entry
}

// Back makes ready what [Queue.Retry] sends of an entry. It changes nothing, but a large body is written for the
// message: whoever doesn't send the message drops it by [Drop]. The error is that of Retry.
func (p *Queue) Back(ctx context.Context, m Entry) (Back, error) {
	b := p.Sent(m)
	if m.unreadable != nil {
		return b, p.fault(m.Key, fmt.Errorf("%w: nothing in it can be sent; discard it when you have seen what it is", m.unreadable))
	}
	e, err := wire.Decode(m.Body)
	if err != nil {
		b.packed.Sends = []storage.Send{{Queue: p.queue, Message: storage.Message{Body: m.Body}}}
		return b, nil
	}
	if err := e.CheckDataRef(p.queue); err != nil {
		return b, p.fault(m.Key, err)
	}
	if err := p.channels.Outbox().FetchBody(ctx, &e); err != nil {
		if _, err := p.Get(ctx, m.Key); errors.Is(err, storage.ErrNotFound) {
			return b, err // another operator has settled it meanwhile
		}
		return b, p.fault(m.Key, err)
	}
	e.DataRef, e.Attempts, e.Hangs, e.HandBacks, e.Hops, e.LastError, e.FirstFailed = "", 0, 0, 0, 0, "", time.Time{}
	e.Retried = m.decision()
	if e.Due.Before(time.Now()) {
		e.Due = time.Time{} // a handler may have had it, so no cancellation concerns it
	}
	if e.Born().IsZero() {
		e.Since = m.First // it comes from elsewhere, and must not seem new
	}
	if b.packed, err = p.channels.Outbox().PackFor(ctx, p.queue, e); err != nil {
		return b, p.fault(m.Key, err)
	}
	return b, nil
}

// Sent is what [Queue.Back] makes of an entry whose message was sent already: the entry is to be removed, and that is
// all.
func (p *Queue) Sent(m Entry) Back {
	b := Back{queue: p, key: m.Key, etag: m.ETag}
	if e, err := wire.Decode(m.Body); err == nil && e.CheckDataRef(p.queue) == nil {
		b.ref = e.DataRef
	}
	return b
}

// SendBack sends messages back as one unit of work, which writes a document first, unless that is nil. It returns the
// ETag of the document. After a lost race, [storage.ErrInvalid] or [storage.ErrTooLarge] nothing was sent, and nothing
// is to be dropped. After any other error some may have been sent. The entries stay until [Back.Remove].
func SendBack(ctx context.Context, channels *channel.Channels, w *storage.Write, all ...Back) (storage.ETag, error) {
	return channels.Outbox().SendWith(ctx, w, together(all))
}

// Drop deletes what was written for messages that are not sent.
func Drop(ctx context.Context, channels *channel.Channels, all ...Back) {
	channels.Outbox().Discard(ctx, together(all))
}

func together(all []Back) (p wire.Packed) {
	for _, b := range all {
		p.Add(b.packed)
	}
	return p
}

// Remove deletes the entry of a message that was sent back. An entry that was put again meanwhile stays.
func (b Back) Remove(ctx context.Context) error {
	err := b.queue.remove(ctx, b.key, b.etag)
	switch {
	case storage.LostRace(err), errors.Is(err, storage.ErrNotFound):
		return nil // it is in the poison queue again, and stays with its body; or another operator has taken it out
	case err != nil || b.ref == "":
		return err
	}
	_ = b.queue.channels.Outbox().DeleteBody(ctx, b.ref) // it is sent with a body of its own, so this one is an orphan
	return nil
}

// decision names an operator's retry of this entry. It stays the same if the retry is interrupted and repeated.
func (m *Entry) decision() string {
	return channel.DerivedID(m.ID, "retried", m.Key, string(m.ETag), m.Last.UTC().Format(time.RFC3339Nano))
}
