package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// poisonBlobs is where the poison queues of all queues are: a blob per message under QUEUE/DIGEST, not a queue of
// the store, so that it can be listed without being consumed, bears any size, and a message put twice is
// there once.
const poisonBlobs = "poison"

// Poisoned is a message in the poison queue: whole, with what is known of its end.
type Poisoned struct {
	Key        string       `json:"key"` // names it in the poison queue of its queue
	Queue      string       `json:"queue"`
	Reason     string       `json:"reason"` // short and stable: handlers.Reason…, or a handler's own
	Error      string       `json:"error"`
	Attempts   int          `json:"attempts"` // how often a handler said no, the last time included
	Deliveries int          `json:"deliveries"`
	First      time.Time    `json:"first"` // first failure
	Last       time.Time    `json:"last"`
	Worker     string       `json:"worker"`
	ID         string       `json:"id,omitempty"`   // of the message; empty if it can't be decoded
	Kind       channel.Kind `json:"kind,omitempty"` // likewise
	Body       []byte       `json:"body"`           // the message as it was received
}

// putPoison writes a message to the poison queue and deletes it from its own, in this order, unless it is in other
// hands by now, where it may end well: then the error is [storage.ErrReceiptStale].
func putPoison(ctx context.Context, s storage.Store, m *message, p Poisoned) error {
	id := sha256.Sum256([]byte(p.ID))
	data := p.Body
	if p.ID != "" {
		data = m.envelope.Data // history doesn't make it another message
	}
	content := sha256.Sum256(data)
	p.Key = hex.EncodeToString(id[:8]) + hex.EncodeToString(content[:8])
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := m.prove(ctx, s.Queue(p.Queue), 2*outcomeTime); err != nil { // ours for longer than ctx lasts
		return err
	}
	_, err = storage.Commit(ctx, s, storage.Work{
		Write:  &storage.Write{Container: poisonBlobs, Key: p.Queue + "/" + p.Key, Body: b},
		Delete: []storage.Claim{m.claim()},
	})
	return err
}

// PoisonQueue is for the operator of a queue: what is in its poison queue, and what becomes of it. It may be
// used while workers run.
type PoisonQueue struct {
	channels *channel.Channels
	queue    string
}

// NewPoisonQueue returns the poison queue of a queue.
func NewPoisonQueue(channels *channel.Channels, queue string) *PoisonQueue {
	return &PoisonQueue{channels: channels, queue: queue}
}

func (p *PoisonQueue) blobs() storage.Blobs { return p.channels.Store().Blobs(poisonBlobs) }

// List yields the messages, in no particular order.
func (p *PoisonQueue) List(ctx context.Context) iter.Seq2[Poisoned, error] {
	return func(yield func(Poisoned, error) bool) {
		prefix := p.queue + "/"
		for info, err := range p.blobs().List(ctx, prefix) {
			if err != nil {
				yield(Poisoned{}, err)
				return
			}
			m, err := p.Get(ctx, info.Key[len(prefix):])
			if errors.Is(err, storage.ErrNotFound) {
				continue // gone meanwhile
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Get returns one message. [storage.ErrNotFound] if there is none of that key.
func (p *PoisonQueue) Get(ctx context.Context, key string) (Poisoned, error) {
	m, _, err := p.get(ctx, key)
	return m, err
}

func (p *PoisonQueue) get(ctx context.Context, key string) (Poisoned, storage.ETag, error) {
	var m Poisoned
	blob, err := p.blobs().Get(ctx, p.queue+"/"+key, "")
	if err != nil {
		return m, "", err
	}
	if err := json.Unmarshal(blob.Body, &m); err != nil {
		return m, "", p.fault(key, err)
	}
	return m, blob.ETag, nil
}

// Retry sends a message back to its queue, with its ID and without its history. If it is interrupted the message
// may be in both places, with a body for each; retrying it again is harmless. [storage.ErrNotFound] if there is none
// of that key.
func (p *PoisonQueue) Retry(ctx context.Context, key string) error {
	m, etag, err := p.get(ctx, key)
	if err != nil {
		return err
	}
	send := storage.Send{Queue: p.queue, Message: storage.Message{Body: m.Body}}
	e, undecodable := channel.Decode(m.Body)
	ref := e.DataRef
	if undecodable == nil {
		if err := e.CheckDataRef(p.queue); err != nil {
			return p.fault(key, err)
		}
		if err := p.channels.Fetch(ctx, &e); err != nil {
			return p.fault(key, err)
		}
		e.DataRef, e.Attempts, e.HandBacks, e.LastError, e.FirstFailed = "", 0, 0, "", time.Time{}
		packed, err := p.channels.PackFor(ctx, p.queue, e)
		if err != nil {
			return p.fault(key, err)
		}
		send = packed.Sends[0]
	}
	if _, err := storage.Commit(ctx, p.channels.Store(), storage.Work{Send: []storage.Send{send}}); err != nil {
		return err
	}
	if err := p.remove(ctx, key, etag); err != nil || ref == "" {
		return err
	}
	return p.channels.Release(ctx, ref)
}

func (p *PoisonQueue) fault(key string, err error) error {
	return fmt.Errorf("worker: poison queue of %s: message %s: %w", p.queue, storage.Quote(key), err)
}

// Discard deletes a message for good, and its claim-checked body.
func (p *PoisonQueue) Discard(ctx context.Context, key string) error {
	m, etag, err := p.get(ctx, key)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, key, etag); err != nil {
		return err
	}
	if e, err := channel.Decode(m.Body); err == nil && e.DataRef != "" && e.CheckDataRef(p.queue) == nil {
		return p.channels.Release(ctx, e.DataRef)
	}
	return nil
}

// remove takes a message out, unless it has been put again since: then that one stays.
func (p *PoisonQueue) remove(ctx context.Context, key string, etag storage.ETag) error {
	err := p.blobs().Delete(ctx, p.queue+"/"+key, storage.Condition{IfMatch: etag})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrPrecondition) {
		return nil
	}
	return err
}
