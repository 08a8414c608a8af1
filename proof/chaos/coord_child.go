package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	childSays = "ready"         // once it has opened its stores
	childTTL  = 3 * time.Second // of each lease: the shortest
)

// A childSpec is what a child of the coordination's run has to know.
type childSpec struct {
	Name   string
	Store  string
	More   []string      // the quorum's stores besides Store
	Dir    string        // for its journal
	Pace   time.Duration // of its work
	Rounds int64         // gates
}

// A child is a process that uses all of coordination at once.
type child struct {
	childSpec
	life    string // its name, and which of its processes it is
	store   *storage.Store
	stores  []*storage.Store // of the quorum
	numbers *ids.Sequence
	turns   *keylock.Turns
	notebook

	heard int64 // listeners so far
	sent  int64 // signals so far
}

func newChild(spec string) (*child, error) {
	c := &child{}
	if err := json.Unmarshal([]byte(spec), &c.childSpec); err != nil {
		return nil, err
	}
	c.life = lifeOf(c.Name, os.Getpid())
	var err error
	c.file, err = newJournalFile(c.Dir, c.life)
	return c, err
}

// run works until ctx ends.
func (c *child) run(ctx context.Context, out io.Writer) (err error) {
	defer func() { err = errors.Join(err, c.close()) }()
	for _, url := range append([]string{c.Store}, c.More...) {
		s, err := openPatiently(ctx, url)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // all that counts was answered
		c.stores = append(c.stores, s)
	}
	c.store = c.stores[0]
	if c.numbers, err = ids.Open(c.store, counterName, ids.Config{Most: 40}); err != nil {
		return err
	}
	if c.turns, err = keylock.New(c.store, turnName, keylock.Config{TTL: childTTL, Holder: c.Name}); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, childSays) // the parent finds out if it can't be written
	var all sync.WaitGroup
	for _, step := range []func(context.Context) error{c.number, c.log, c.add, c.lead, c.lock, c.take, c.pass, c.listen, c.send} {
		all.Go(func() {
			for ctx.Err() == nil {
				c.explain(ctx, step(ctx))
				wait(ctx, c.Pace/2+rand.N(c.Pace))
			}
		})
	}
	all.Wait()
	c.explain(ctx, c.numbers.Close(ctx))
	return nil
}

// openPatiently opens a store that may be away, and one that rings.
func openPatiently(ctx context.Context, url string) (*storage.Store, error) {
	for {
		s, err := storage.Drivers{sqlite.Driver, azure.Driver, redis.Driver}.Open(ctx, url, storage.OpenConfig{})
		if err == nil && !s.Rings() {
			var bell *doorbell.Doorbell
			if bell, err = doorbell.Over(s, doorbell.Config{Listen: "127.0.0.1:0"}); err == nil {
				s = bell.Store
			}
		}
		if !errors.Is(err, storage.ErrUnavailable) || !wait(ctx, 200*time.Millisecond) {
			return s, err
		}
	}
}

// explain notes an error: as trouble if the disturbances explain it, else as a fault.
func (c *child) explain(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return
	}
	for _, e := range []error{storage.ErrUnavailable, storage.ErrThrottled, lease.ErrLost, lease.ErrFenced, quorum.ErrLost, keylock.ErrLost, signal.ErrLost, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			c.note(line{What: trouble, Text: err.Error()})
			return
		}
	}
	c.note(line{What: failed, Text: err.Error()})
}
