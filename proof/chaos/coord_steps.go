package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
)

// The names that all children use.
const (
	counterName  = "numbers"   // also the table of the rows, and its partition
	documents    = "documents" // the container of the fenced documents: one for the log and one for the leader
	logName      = "log"       // a lease and its document
	leaderName   = "chief"     // a leader and its document
	quorumName   = "many"      // a lock over several stores
	turnName     = "turn"      // a turn
	sumsName     = "sums"      // the document of lease.Update: how often each life has added, and its container
	leaderPrefix = "leader/"   // of its lease
	leaderLease  = leaderPrefix + leaderName
)

func gateName(round int64) string { return fmt.Sprintf("round-%d", round) }

func rowKey(number int64) string { return fmt.Sprintf("%019d", number) }

// number takes a number and puts a row that only one can put.
func (c *child) number(ctx context.Context) error {
	n, err := c.numbers.Next(ctx)
	if err != nil {
		return err
	}
	c.note(line{What: numbered, N: n})
	table := c.store.Table(counterName)
	_, err = table.Put(ctx, counterName, rowKey(n), []byte(c.life), storage.Condition{IfAbsent: true})
	if errors.Is(err, storage.ErrExists) {
		there, why := table.Get(ctx, counterName, rowKey(n))
		if why != nil {
			return why
		}
		if string(there.Data) != c.life { // else an earlier try of the same call has put it
			c.note(line{What: collided, N: n, Text: string(there.Data)})
			return nil
		}
		err = nil
	}
	if err == nil {
		c.note(line{What: stored, N: n})
	}
	return err
}

// log holds a lease for some entries in its document.
func (c *child) log(ctx context.Context) error {
	return lease.Do(ctx, c.store, logName, lease.Config{TTL: childTTL, Holder: c.Name}, func(ctx context.Context, l *lease.Lease) error {
		return c.hold(ctx, logName, l.Fence(), l.Blobs(c.store.Blobs(documents)), 3+rand.IntN(4))
	})
}

var errRest = errors.New("a leader rests")

// lead stands for leader. Each term ends after some entries, if nothing ends it before.
func (c *child) lead(ctx context.Context) error {
	err := leader.Run(ctx, c.store, leaderName, leader.Config{TTL: childTTL, Holder: c.Name}, func(ctx context.Context, term leader.Term) error {
		err := c.hold(ctx, leaderName, term.Number, term.Blobs(c.store.Blobs(documents)), 30+rand.IntN(30))
		if err != nil {
			return err
		}
		return errRest
	})
	if errors.Is(err, errRest) { // the leader had a rest when the process was stopped
		return nil
	}
	return err
}

// hold makes entries in a fenced document, until it has made so many or ctx ends.
func (c *child) hold(ctx context.Context, name string, fence int64, docs *lease.Documents, entries int) error {
	c.note(line{What: begun, Name: name, N: fence})
	defer func() { c.note(line{What: over, Name: name, N: fence}) }()
	defer c.lookAt(ctx, name, fence)()
	w := writer{child: c, name: name, fence: fence, docs: docs}
	for range entries {
		if !c.stillAlive(ctx, name, fence) {
			break
		}
		if err := w.append(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if errors.Is(context.Cause(ctx), lease.ErrLost) {
		return w.late()
	}
	return nil
}

// stillAlive waits, and notes that ctx is alive.
func (c *child) stillAlive(ctx context.Context, name string, fence int64) bool {
	wait(ctx, c.Pace)
	at := clock() // before the look: the process may stand still after it
	if ctx.Err() != nil {
		return false
	}
	c.note(line{At: at, What: alive, Name: name, N: fence})
	return true
}

// lookers look at a context all the time. When a process goes on that stood still, they often run before its timers.
const lookers = 8

// lookAt looks at ctx all the time. The function that it returns ends that, and notes when ctx was alive last.
func (c *child) lookAt(ctx context.Context, name string, fence int64) func() {
	over := make(chan struct{})
	var all sync.WaitGroup
	var last atomic.Int64
	for range lookers {
		all.Go(func() {
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for {
				at := clock()
				if ctx.Err() != nil {
					return
				}
				last.Store(at)
				select {
				case <-look.C:
				case <-over:
					return
				}
			}
		})
	}
	return func() {
		close(over)
		all.Wait()
		if at := last.Load(); at > 0 {
			c.note(line{At: at, What: alive, Name: name, N: fence})
		}
	}
}

// take takes the turn of a key and holds it for a while.
func (c *child) take(ctx context.Context) error {
	t, err := c.turns.Take(ctx, turnName, nil)
	switch {
	case errors.Is(err, keylock.ErrHeld):
		return nil
	case err != nil:
		return err
	}
	c.note(line{What: begun, Name: turnName, N: t.Fence()})
	stop := c.lookAt(t.Context(), turnName, t.Fence())
	for range 4 + rand.IntN(8) {
		if !c.stillAlive(t.Context(), turnName, t.Fence()) {
			break
		}
	}
	stop()
	err = t.End(ctx, keylock.State{})
	c.note(line{What: over, Name: turnName, N: t.Fence()})
	return err
}

// A writer appends entries to a document, each based on the one before.
type writer struct {
	*child
	name  string
	fence int64
	docs  *lease.Documents

	content []byte
	etag    storage.ETag // empty: read the document before the next write
	own     bool         // the document has this fence, so no older holder can write any more
}

// next returns the content with one more entry.
func (w *writer) next() (content []byte, count int64, err error) {
	count = int64(bytes.Count(w.content, []byte("\n"))) + 1
	text, err := json.Marshal(entry{Fence: w.fence, By: w.life, Count: count})
	return append(append(bytes.Clone(w.content), text...), '\n'), count, err
}

// append adds an entry, if the document is still as it was read. It does nothing if another writer was faster.
func (w *writer) append(ctx context.Context) error {
	cond := storage.Condition{IfMatch: w.etag}
	if w.etag == "" {
		there, err := w.docs.Get(ctx, w.name)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			cond.IfAbsent = true
		case err != nil:
			return w.refused(err)
		}
		w.content, w.etag, cond.IfMatch = there.Content, there.ETag, there.ETag
		w.own = w.own || there.Fence == w.fence // a write whose answer was lost
	}
	content, count, err := w.next()
	if err != nil {
		return err
	}
	etag, err := w.docs.Put(ctx, w.name, content, cond)
	if err == nil {
		w.content, w.etag, w.own = content, etag, true
		w.note(line{What: appended, Name: w.name, N: w.fence, Count: count})
		return nil
	}
	w.etag = ""
	if storage.LostRace(err) && !errors.Is(err, lease.ErrFenced) && !errors.Is(err, storage.ErrUnavailable) {
		return nil
	}
	return w.refused(err)
}

// late writes after the end of the lease, as a process does that has stood still before its write. The write has no
// condition: only the fence can refuse it. If nobody else has written since, it may succeed: then it replaces at most
// an entry of this holder that was never acknowledged.
func (w *writer) late() error {
	if !w.own {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*childTTL)
	defer cancel()
	content, count, err := w.next()
	if err != nil {
		return err
	}
	for {
		_, err := w.docs.Put(ctx, w.name, content, storage.Condition{})
		if err == nil {
			break
		}
		if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, lease.ErrFenced) || !wait(ctx, w.Pace) {
			return w.refused(err)
		}
	}
	w.note(line{What: appended, Name: w.name, N: w.fence, Count: count, Text: "late"})
	return nil
}

func (w *writer) refused(err error) error {
	if errors.Is(err, lease.ErrFenced) {
		w.note(line{What: refused, Name: w.name, N: w.fence})
	}
	return err
}

// add adds 1 to this life's sum, in a document for all.
func (c *child) add(ctx context.Context) error {
	c.note(line{What: adding})
	err := lease.Update(ctx, c.store, sumsName, sumsName, lease.Config{TTL: childTTL, Holder: c.Name}, func(_ context.Context, old []byte) ([]byte, error) {
		sums := map[string]int64{}
		if old != nil {
			if err := json.Unmarshal(old, &sums); err != nil {
				return nil, err
			}
		}
		sums[c.life]++
		return json.Marshal(sums)
	})
	if err == nil {
		c.note(line{What: added})
	}
	return err
}

// lock holds the quorum's lock for a while.
func (c *child) lock(ctx context.Context) error {
	l, err := quorum.Acquire(ctx, c.stores, quorumName, quorum.Config{TTL: childTTL, Holder: c.Name})
	if err != nil {
		return err
	}
	c.note(line{What: begun, Name: quorumName, N: l.Fence()})
	stop := c.lookAt(l.Context(), quorumName, l.Fence())
	for range 1 + rand.IntN(3) {
		if !c.stillAlive(l.Context(), quorumName, l.Fence()) {
			break
		}
	}
	stop()
	err = l.Release(ctx)
	c.note(line{What: over, Name: quorumName, N: l.Fence()})
	return err
}

// pass passes all gates in turn.
func (c *child) pass(ctx context.Context) error {
	for round := int64(1); round <= c.Rounds; round++ {
		if err := gate.At(c.store, gateName(round)).Wait(ctx); err != nil {
			return err
		}
		c.note(line{What: passed, N: round})
	}
	<-ctx.Done()
	return nil
}

const (
	toOne = "one." // begins the name of a signal to one
	toAll = "all."
)

// listen notes all signals, until the listener is lost.
func (c *child) listen(ctx context.Context) error {
	c.heard++
	l, err := signal.Listen(ctx, c.store, toOne+">", toAll+">")
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		s, err := l.Any(ctx)
		if err != nil {
			return err
		}
		c.note(line{What: heard, Name: s.Name, N: c.heard})
	}
}

// send sends a signal to one and another to all.
func (c *child) send(ctx context.Context) error {
	c.sent++
	rest := fmt.Sprintf("%s.%d", c.life, c.sent)
	note := func(name string, n int, err error) error {
		l := line{What: sent, Name: name, N: int64(n)}
		if err != nil {
			l.Text = err.Error()
		}
		c.note(l)
		return err
	}
	took := 0
	ok, err := signal.One(ctx, c.store, toOne+rest, []byte("work"))
	if ok {
		took = 1
	}
	if err := note(toOne+rest, took, err); err != nil {
		return err
	}
	took, err = signal.Broadcast(ctx, c.store, toAll+rest, []byte("news"))
	if err := note(toAll+rest, took, err); err != nil {
		return err
	}
	wait(ctx, time.Duration(2+rand.IntN(4))*c.Pace)
	return nil
}
