// Package poison keeps the messages that no handler could handle, whole, until an operator decides.
//
//	q := poison.At(channels, "mails")
//	for e, err := range q.List(ctx) {       // each message with its reason
//		…
//		err = q.Retry(ctx, e.Key)            // back into its queue, without its history
//		err = q.DiscardIf(ctx, e.Key, e.ETag) // or delete it, unless it has changed since
//	}
//	counts, err := poison.Count(ctx, store) // of all queues, in one listing
//
// A worker puts a message there after too many attempts or deliveries, or because a handler said so. The program may
// send a compensation then, by handlers.OnPoison. The entry has the IDs of its messages, or the reason why there are
// none.
//
// The poison queue of a queue is not a queue of the store. It is a set of blobs, one for each message, under
// QUEUE/DIGEST. So it can be listed without being consumed, it takes messages of any size, and a message that is put
// twice is there once.
//
// # Laws
//
//   - A message is in its own queue, in the poison queue, or (after a crash in between) in both; never in neither.
//   - The entry and the compensation are one unit of work. A message that is poisoned again, after a retry, has the
//     same compensation, which is done once. A discard takes nothing back.
//   - A message that another worker holds by now is not put: it may still end well.
//   - Retry and discard may be repeated, by several operators, while workers run. An entry that was put again meanwhile
//     stays.
package poison

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// container is where the poison queues of all queues are.
const container = "poison"

// maxError bounds the error in an entry, in bytes, so that it doesn't keep the message out of the poison queue.
const maxError = 64 << 10

// ErrBodyLeft is in the error of a discard that has deleted the entry but not its claim-checked body. The error names
// the body, because nothing else refers to it any more.
var ErrBodyLeft = errors.New("discarded, but its claim-checked body is left")

// ReasonUnreadable is the reason of an entry that can't be read: its blob was damaged, or another program wrote it. Its
// Body is the blob as it is, and its Error says what is wrong. It is listed among the others and can be discarded. It
// can't be sent back.
const ReasonUnreadable = "unreadable entry"

// An Entry is a message in the poison queue: the whole message, and what is known about how it ended.
type Entry struct {
	Key        string       `json:"key"` // names it in the poison queue of its queue
	Queue      string       `json:"queue"`
	Reason     string       `json:"reason"`   // short and stable: handlers.Reason…, a handler's, [ReasonUnreadable]
	Error      string       `json:"error"`    // shortened if it is very long
	Attempts   int          `json:"attempts"` // how often a handler said no, with the last time
	Deliveries int          `json:"deliveries"`
	First      time.Time    `json:"first"` // time of the first failure
	Last       time.Time    `json:"last"`
	Worker     string       `json:"worker"`
	ID         string       `json:"id,omitempty"`   // of the message; empty if it can't be decoded
	Kind       channel.Kind `json:"kind,omitempty"` // likewise
	Body       []byte       `json:"body"`           // the message as it was received

	// Of a kind that handlers.OnPoison has a function for:
	Emitted       []string `json:"emitted,omitempty"`       // IDs of the messages of the compensation
	Uncompensated string   `json:"uncompensated,omitempty"` // why there is none, where it failed

	ETag storage.ETag `json:"-"` // of this state of the entry, for DiscardIf

	unreadable error // why nothing but the body is known
}

// Put writes a message to the poison queue, sends its compensation, and deletes the message from its own queue, as one
// unit of work. Put is for workers. It calls prove first, which makes sure that only the caller has the message until
// ctx ends, and returns the claim to delete. If prove fails, Put returns its error and writes nothing. e needs no key.
func Put(ctx context.Context, s *storage.Store, envelope *channel.Envelope, e Entry, prove func(context.Context) (storage.Claim, error), compensation ...storage.Send) error {
	e.Key, e.Error, e.Uncompensated = keyOf(envelope, e.Body), ErrorText(e.Error), ErrorText(e.Uncompensated)
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	claim, err := prove(ctx)
	if err != nil {
		return err
	}
	_, err = s.Commit(ctx, storage.Work{
		Write:  &storage.Write{Container: container, Key: e.Queue + "/" + e.Key, Body: b},
		Send:   compensation,
		Delete: []storage.Claim{claim},
	})
	return err
}

// ErrorText returns the text of an error as an entry holds it.
func ErrorText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// Begun returns the entry of a message that a worker has begun to move to the poison queue, or
// [storage.ErrNotFound]. It is for workers, where a crash may leave the message in both places.
func Begun(ctx context.Context, s *storage.Store, queue string, envelope *channel.Envelope, body []byte) (e Entry, err error) {
	key := keyOf(envelope, body)
	blob, err := s.Blobs(container).Get(ctx, queue+"/"+key, "")
	if err != nil {
		return e, err
	}
	if err := e.read(key, blob.Body); err != nil { // the worker will put it again
		return Entry{}, storage.ErrNotFound
	}
	return e, nil
}

// keyOf names a message in the poison queue of its queue.
func keyOf(envelope *channel.Envelope, body []byte) string {
	content := sha256.Sum256(body)
	switch ref := envelope.DataRef; {
	case ref != "": // the body may not have been read; each copy has a body of its own, which the entry keeps
		content = sha256.Sum256([]byte(ref))
	case envelope.ID != "": // history doesn't make it another message
		content = envelope.Content()
	}
	return idDigest(envelope.ID) + hex.EncodeToString(content[:8])
}

// idDigest is the prefix of the keys of all messages with an ID.
func idDigest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// A State names an entry as it is: an entry that is put again has another ETag.
type State struct {
	Queue string
	Key   string
	ETag  storage.ETag
	Put   time.Time // by the store's clock
}

// States yields a state for each entry in the poison queue of a queue, "" for all queues, and reads none of them. They
// come in the order of queues and keys.
func States(ctx context.Context, s *storage.Store, queue string) iter.Seq2[State, error] {
	if queue != "" {
		queue += "/"
	}
	return func(yield func(State, error) bool) {
		for info, err := range s.Blobs(container).List(ctx, queue) {
			of, key, ok := strings.Cut(info.Key, "/")
			if err == nil && !ok {
				continue // a blob of somebody else
			}
			if !yield(State{of, key, info.ETag, info.Modified}, err) {
				return
			}
		}
	}
}

// Count counts the messages in all poison queues of a store, by queue, in one listing. An empty poison queue is
// missing.
func Count(ctx context.Context, s *storage.Store) (map[string]int64, error) {
	counts := map[string]int64{}
	for e, err := range States(ctx, s, "") {
		if err != nil {
			return nil, err
		}
		counts[e.Queue]++
	}
	return counts, nil
}

// CountOf counts the messages in the poison queue of a queue, most at most. more says that there are more.
func CountOf(ctx context.Context, s *storage.Store, queue string, most int64) (n int64, more bool, err error) {
	for _, err := range s.Blobs(container).List(ctx, queue+"/") {
		switch {
		case err != nil:
			return 0, false, err
		case n == most:
			return n, true, nil
		}
		n++
	}
	return n, false, nil
}

// A Queue is the poison queue of a queue, for an operator. It may be used while workers run.
type Queue struct {
	channels *channel.Channels
	queue    string
}

// At returns the poison queue of a queue.
func At(channels *channel.Channels, queue string) *Queue {
	return &Queue{channels: channels, queue: queue}
}

func (p *Queue) blobs() *storage.Blobs { return p.channels.Store().Blobs(container) }

// List yields the messages, in the order of their keys. It includes entries that can't be read: see
// [ReasonUnreadable]. A name that no queue can have is an error, unless another program has put something there.
func (p *Queue) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		found := false
		for m, err := range p.ListAfter(ctx, "") {
			if found = true; !yield(m, err) {
				return
			}
		}
		if err := storage.CheckName(p.queue); err != nil && !found {
			yield(Entry{}, fmt.Errorf("poison: queue: %w", err))
		}
	}
}

// ListAfter is List from the first key that is above another, whatever the name of the queue. The entries before an
// error have no gaps.
func (p *Queue) ListAfter(ctx context.Context, key string) iter.Seq2[Entry, error] {
	after := ""
	if key != "" {
		after = p.queue + "/" + key
	}
	return p.list(ctx, "", after)
}

// Find yields the messages with an ID, and reads no others. There may be several, with different contents.
func (p *Queue) Find(ctx context.Context, id string) iter.Seq2[Entry, error] {
	return p.list(ctx, idDigest(id), "")
}

// list yields the messages whose keys begin with the given digits, from the first blob that is above another. It reads
// several at a time, because a store may be distant.
func (p *Queue) list(ctx context.Context, digits, after string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var keys []string
		var bytes int64
		flush := func() (more bool) {
			all, err := p.getAll(ctx, keys)
			keys, bytes = keys[:0], 0
			if err != nil { // some were read, with gaps between them
				yield(Entry{}, err)
				return false
			}
			for _, m := range all {
				if m.ETag != "" && !yield(m, nil) {
					return false
				}
			}
			return true
		}
		for info, err := range p.blobs().ListAfter(ctx, p.queue+"/"+digits, after) {
			if err != nil {
				if flush() {
					yield(Entry{}, err)
				}
				return
			}
			if bytes += info.Size; len(keys) == readAhead || len(keys) > 0 && bytes > readBytes {
				if !flush() {
					return
				}
				bytes = info.Size
			}
			keys = append(keys, strings.TrimPrefix(info.Key, p.queue+"/"))
		}
		flush()
	}
}

// These bound what is read at a time: so many messages, and so many bytes, except that one message may be larger.
const (
	readAhead = 32
	readBytes = 16 << 20
)

// getAll reads messages, in the order of their keys. A message that is gone meanwhile has no ETag in the result.
func (p *Queue) getAll(ctx context.Context, keys []string) ([]Entry, error) {
	all := make([]Entry, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	for i, key := range keys {
		g.Go(func() (err error) {
			if all[i], err = p.Get(ctx, key); errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return all, g.Wait()
}

// Get returns one message, or [storage.ErrNotFound] if there is none with that key. An entry that can't be read is no
// error: see [ReasonUnreadable].
func (p *Queue) Get(ctx context.Context, key string) (m Entry, err error) {
	blob, err := p.blobs().Get(ctx, p.queue+"/"+key, "")
	if err != nil {
		return Entry{}, err
	}
	if fault := m.read(key, blob.Body); fault != nil {
		m = Entry{Body: blob.Body, Reason: ReasonUnreadable, Error: fault.Error(), unreadable: fault}
	}
	m.Queue, m.Key, m.ETag = p.queue, key, blob.ETag
	return m, nil
}

// read reads an entry. Its errors repeat nothing of the blob's content.
func (m *Entry) read(key string, body []byte) error {
	switch err := json.Unmarshal(body, m); {
	case err != nil:
		return errors.New("it is not the JSON of a message in the poison queue")
	case m.Key != key:
		return errors.New("it is not the entry that its name says")
	case m.ID != "" && wire.CheckID(m.ID) != nil, m.Kind != "" && m.Kind.Check() != nil:
		return errors.New("its ID or its kind can't be one")
	}
	return nil
}

func (p *Queue) fault(key string, err error) error {
	return fmt.Errorf("poison: queue %s: message %s: %w", p.queue, storage.Quote(key), err)
}

// Discard deletes a message for good, with its claim-checked body. The error matches
//
//   - [storage.ErrNotFound] if there is no message with that key,
//   - [storage.ErrPrecondition] if it was put again meanwhile; the new entry stays,
//   - [ErrBodyLeft] if only the body could not be deleted.
func (p *Queue) Discard(ctx context.Context, key string) error {
	return p.DiscardIf(ctx, key, "")
}

// DiscardIf is Discard of the very entry that the operator has looked at. The error matches [storage.ErrPrecondition]
// also if the message was put again since the entry had that ETag.
func (p *Queue) DiscardIf(ctx context.Context, key string, etag storage.ETag) error {
	m, err := p.Get(ctx, key)
	if err != nil {
		return err
	}
	if etag == "" {
		etag = m.ETag
	}
	if err := p.remove(ctx, key, etag); err != nil || m.unreadable != nil {
		return err
	}
	if e, err := wire.Decode(m.Body); err == nil && e.DataRef != "" && e.CheckDataRef(p.queue) == nil {
		if err := p.channels.Outbox().DeleteBody(ctx, e.DataRef); err != nil {
			return p.fault(key, fmt.Errorf("%w: %s: %w", ErrBodyLeft, e.DataRef, err))
		}
	}
	return nil
}

// remove deletes the entry that has that ETag.
func (p *Queue) remove(ctx context.Context, key string, etag storage.ETag) error {
	return p.blobs().Delete(ctx, p.queue+"/"+key, storage.Condition{IfMatch: etag})
}
