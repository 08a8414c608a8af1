package storage

import (
	"context"
	"errors"
)

// Work is one unit of work: write a document, then send messages, then delete the messages that asked
// for it. Any part may be missing.
type Work struct {
	Write  *Write
	Send   []Send
	Delete []Claim
}

// A Write puts one blob.
type Write struct {
	Container, Key string
	Body           []byte
	If             Condition
}

// A Send adds one message to a queue.
type Send struct {
	Queue   string
	Message Message
}

// A Claim is a received message: its queue and the newest receipt.
type Claim struct {
	Queue   string
	Receipt Receipt
}

// Committed is what a unit of work brought about.
type Committed struct {
	ETag  ETag    // of the blob written, if any
	Stale []Claim // deletions that did nothing, because somebody else holds or has deleted the message
}

// A Committer does a unit of work atomically: all or nothing, but that stale receipts in Delete are
// reported and undo neither the write nor the sends. Optional, goes with Props.Atomic; see [Commit].
type Committer interface {
	Commit(ctx context.Context, w Work) (Committed, error)
}

// Commit does a unit of work: atomically where the store is a [Committer], else write, sends, deletes
// in this order, stopping where one fails. In both a crash or an error leaves the messages to be
// deleted where they are unless all before was done, so the work comes back; that is what makes a repeat
// possible, and IDs and ETags make it harmless.
//
// [ErrPrecondition] or [ErrExists] mean that the write's condition failed and nothing at all was done.
// After any other error an unknown beginning of the work may have been done. Stale receipts are no error.
func Commit(ctx context.Context, s Store, w Work) (Committed, error) {
	if c, ok := As[Committer](s); ok {
		return c.Commit(ctx, w)
	}
	if err := w.Check(s.Props()); err != nil {
		return Committed{}, err
	}
	var done Committed
	if w.Write != nil {
		etag, err := s.Blobs(w.Write.Container).Put(ctx, w.Write.Key, w.Write.Body, w.Write.If)
		if err != nil {
			return done, err
		}
		done.ETag = etag
	}
	for queue, messages := range byQueue(w.Send, func(x Send) (string, Message) { return x.Queue, x.Message }) {
		if err := s.Queue(queue).Send(ctx, messages); err != nil {
			return done, err
		}
	}
	for queue, receipts := range byQueue(w.Delete, func(c Claim) (string, Receipt) { return c.Queue, c.Receipt }) {
		err := s.Queue(queue).Delete(ctx, receipts)
		var stale *StaleError
		switch {
		case errors.As(err, &stale):
			for _, r := range stale.Receipts {
				done.Stale = append(done.Stale, Claim{Queue: queue, Receipt: r})
			}
		case err != nil:
			return done, err
		}
	}
	return done, nil
}

// byQueue yields the items of each queue together, queues in order of first mention.
func byQueue[T, I any](items []T, split func(T) (string, I)) func(yield func(string, []I) bool) {
	return func(yield func(string, []I) bool) {
		var names []string
		groups := map[string][]I{}
		for _, it := range items {
			name, item := split(it)
			if _, ok := groups[name]; !ok {
				names = append(names, name)
			}
			groups[name] = append(groups[name], item)
		}
		for _, name := range names {
			if !yield(name, groups[name]) {
				return
			}
		}
	}
}
