package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage"
)

func atomicTests() []test {
	return []test{
		{"no reader sees half a commit", noHalfCommit},
		{"no cancelled commit is half done", noHalfCancelled},
		{"no receiver sees half a batch", noHalfBatch},
	}
}

func (t *check) needAtomic() {
	t.Helper()
	if !t.s.Atomic() {
		t.leaveOut("commits are not atomic")
	}
}

// noHalfCommit commits versions 1, 2, 3 and so on, each with a message that has its number. Meanwhile readers
// compare the document with the messages.
func noHalfCommit(t *check) {
	t.needAtomic()
	container, out := t.name("container"), t.queue()
	doc := t.s.Blobs(container)
	version := func() int {
		b, err := doc.Get(t.ctx, "doc", "")
		if errors.Is(err, storage.ErrNotFound) {
			return 0
		}
		if err != nil {
			t.Errorf("get: %v", err)
		}
		v, _ := strconv.Atoi(string(b.Body))
		return v
	}
	const last = 60
	var over atomic.Bool
	crowd(2, func(i int) {
		if i == 0 {
			defer over.Store(true)
			commitVersions(t, container, out.name, last)
			return
		}
		seen := map[int]bool{}
		for done := false; !done; {
			done = over.Load()
			before := version()
			for {
				ds, err := out.Receive(t.ctx, 10, hold)
				if err != nil {
					t.Errorf("receive: %v", err)
					return
				}
				if len(ds) == 0 {
					break
				}
				for _, d := range ds {
					v, _ := strconv.Atoi(string(d.Body))
					seen[v] = true
					if now := version(); now < v {
						t.Errorf("message %d is there, but the document is at %d", v, now)
					}
				}
			}
			for v := 1; v <= before; v++ {
				if !seen[v] {
					t.Errorf("the document is at %d, but message %d is not there", before, v)
					return
				}
			}
		}
		if len(seen) != last {
			t.Errorf("%d messages; want %d", len(seen), last)
		}
	})
}

// commitVersions commits the versions 1 to last of a document, each with a message.
func commitVersions(t *check, container, queue string, last int) {
	for v := 1; v <= last; v++ {
		if _, err := t.s.Commit(t.ctx, storage.Work{
			Write: &storage.Write{Container: container, Key: "doc", Body: fmt.Append(nil, v)},
			Send:  []storage.Send{send(queue, strconv.Itoa(v))},
		}); err != nil {
			t.Errorf("commit: %v", err)
			return
		}
	}
}

// noHalfCancelled cancels commits under way: each is done whole or not at all.
func noHalfCancelled(t *check) {
	t.needAtomic()
	container, out := t.name("container"), t.queue()
	done, open := disturb(t, func(ctx context.Context, id string, body []byte) error {
		_, err := t.s.Commit(ctx, storage.Work{
			Write: &storage.Write{Container: container, Key: id, Body: body},
			Send:  []storage.Send{send(out.name, id)},
		})
		return err
	})
	// A commit whose caller has given up may still be under way. Its parts must agree in the end.
	sent := map[string]bool{}
	var written map[string]bool
	t.eventually("documents and messages that agree", func() bool {
		for _, id := range out.rest() {
			if sent[id] {
				t.Fatalf("message %s is there twice", id)
			}
			sent[id] = true
		}
		written = map[string]bool{}
		infos, err := collect(t, t.s.Blobs(container).List(t.ctx, ""))
		t.ok(err)
		for _, in := range infos {
			written[in.Key] = true
		}
		for id := range sent {
			if !written[id] {
				return false
			}
		}
		return len(sent) == len(written)
	})
	var bodies []string
	for key := range written {
		b, err := t.s.Blobs(container).Get(t.ctx, key, "")
		t.ok(err)
		bodies = append(bodies, string(b.Body))
	}
	t.outcome(bodies, done, open)
}

// noHalfBatch sends batches of four messages, which become visible together.
func noHalfBatch(t *check) {
	t.needAtomic()
	q := t.queue()
	const size, batches = 4, 30
	var over atomic.Bool
	crowd(2, func(i int) {
		if i == 0 {
			defer over.Store(true)
			for range batches {
				if err := q.Send(t.ctx, make([]storage.Message, size)); err != nil {
					t.Errorf("send: %v", err)
					return
				}
			}
			return
		}
		total := 0
		for done := false; !done; {
			done = over.Load()
			for {
				ds, err := q.Receive(t.ctx, 1, hold)
				if err != nil {
					t.Errorf("receive: %v", err)
					return
				}
				if len(ds) == 0 {
					break
				}
				total += len(ds)
			}
			if total%size != 0 {
				t.Errorf("the queue ran empty after %d messages, in the middle of a batch of %d", total, size)
				return
			}
		}
		if total != size*batches {
			t.Errorf("%d messages; want %d", total, size*batches)
		}
	})
}
