package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Commit does a unit of work. Where the store is [Store.Atomic] it does so atomically, otherwise in the order rows,
// write, sends, deletes, and stops where one fails. In both cases a crash or an error leaves the messages to be
// deleted where they are, unless all before was done. So the work comes back, and IDs and ETags make the repeat
// harmless.
//
// [ErrPrecondition] and [ErrExists] mean that the write's condition failed and nothing was done, except that the rows
// may be there where the store isn't Atomic. After any other error an unknown beginning of the work may have been
// done. Stale receipts are no error.
func (s *Store) Commit(ctx context.Context, w Work) (Committed, error) {
	if err := checkWork(w, s.props); err != nil {
		return Committed{}, err
	}
	if ctx.Err() != nil {
		return Committed{}, &Error{Op: "commit", Resource: workResource(w), Err: context.Cause(ctx)}
	}
	if s.committer != nil {
		done, err := s.committer.Commit(ctx, w)
		if err != nil {
			return Committed{}, fail("commit", workResource(w), err)
		}
		return done, nil
	}
	return s.commitInSteps(ctx, w)
}

// workResource names a unit of work by the document that it writes.
func workResource(w Work) string {
	if w.Write == nil {
		return "work"
	}
	return "blob " + w.Write.Container + "/" + Quote(w.Write.Key)
}

func (s *Store) commitInSteps(ctx context.Context, w Work) (Committed, error) {
	var done Committed
	if x := w.Rows; x != nil {
		if err := s.Table(x.Table).PutRows(ctx, x.Partition, x.Puts); err != nil {
			return done, unknownOutcome(w, err)
		}
	}
	if w.Write != nil {
		etag, err := s.Blobs(w.Write.Container).Put(ctx, w.Write.Key, w.Write.Body, w.Write.If)
		if err != nil && w.Rows != nil { // the rows are written by now
			err = unknownOutcome(w, err)
		}
		if err != nil {
			return done, err
		}
		done.ETag = etag
	}
	err := each(byQueue(w.Send, func(x Send) (string, Message) { return x.Queue, x.Message }), func(queue string, messages []Message) error {
		return s.Queue(queue).Send(ctx, messages)
	})
	if err != nil {
		return done, unknownOutcome(w, err)
	}
	var mu sync.Mutex
	err = each(byQueue(w.Delete, func(c Claim) (string, Receipt) { return c.Queue, c.Receipt }), func(queue string, receipts []Receipt) error {
		err := s.Queue(queue).Delete(ctx, receipts)
		var stale *StaleError
		if !errors.As(err, &stale) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range stale.Receipts {
			done.Stale = append(done.Stale, Claim{Queue: queue, Receipt: r})
		}
		return nil
	})
	return done, unknownOutcome(w, err)
}

// unknownOutcome replaces an error that blames the content: the work was checked, and part of it is done by now.
func unknownOutcome(w Work, err error) error {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) {
		return &Error{Op: "commit", Resource: workResource(w), Err: fmt.Errorf("%w: a unit of work stopped on its way: %v", ErrUnavailable, err)}
	}
	return err
}

// each calls f for all queues at the same time, since none waits for another, and returns the first error.
func each[I any](queues map[string][]I, f func(queue string, items []I) error) error {
	if len(queues) == 1 {
		for queue, items := range queues {
			return f(queue, items)
		}
	}
	errs := make(chan error, len(queues))
	for queue, items := range queues {
		go func() { errs <- f(queue, items) }()
	}
	var first error
	for range queues {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// byQueue brings the items of each queue together.
func byQueue[T, I any](items []T, split func(T) (string, I)) map[string][]I {
	groups := map[string][]I{}
	for _, it := range items {
		name, item := split(it)
		groups[name] = append(groups[name], item)
	}
	return groups
}
