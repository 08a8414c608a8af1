// Package agreetest is the world in which agreement is tested: a store in virtual time, and bad weather.
package agreetest

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Virtual runs a test in virtual time, on a store in a file. It fails if a goroutine is left.
func Virtual(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) { f(t, Open(t, path)) })
}

// Open opens a file for use in a bubble, until the test ends. No goroutine of the store waits for the world outside.
func Open(t *testing.T, path string) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Weather is how bad a store is to one process. Chance decides about each call.
type Weather struct {
	Odds  int           // one call in so many fails before its effect, one after it, one hangs until its context ends, and one writes late
	Slow  time.Duration // the longest time before a call takes effect, and after it
	Late  time.Duration // the longest time until a write takes effect whose caller has given up
	Pause time.Duration // the longest time for which one call in so many stands still, and goes on as if nothing were; 0: none does
}

// Over returns the store in that weather. late counts the writes that are still to come.
func (w Weather) Over(s *storage.Store, r *rand.Rand, late *sync.WaitGroup) *storage.Store {
	var mu sync.Mutex
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	upTo := func(d time.Duration) time.Duration { return time.Duration(roll(int(d))) }
	slow := storage.New(lateStore{s.Driver(), func() (time.Duration, bool) { return upTo(w.Late), roll(w.Odds) == 0 }, late})
	return storagetest.Intercept(slow, func(ctx context.Context, op storagetest.Op, do func() error) error {
		time.Sleep(upTo(w.Slow))
		switch roll(w.Odds) {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			time.Sleep(upTo(w.Slow))
			return op.Fail(storage.ErrUnavailable)
		case 2:
			<-ctx.Done()
			return context.Cause(ctx)
		case 3:
			if w.Pause > 0 {
				time.Sleep(upTo(w.Pause))
			}
		}
		err := do()
		time.Sleep(upTo(w.Slow))
		return err
	})
}

// A lateStore writes some blobs and rows long after it has said that it failed.
type lateStore struct {
	driver.Store
	choose func() (time.Duration, bool) // whether a write is late, and by how much
	late   *sync.WaitGroup
}

func (s lateStore) Blobs(name string) driver.Blobs { return lateBlobs{s.Store.Blobs(name), s} }

type lateBlobs struct {
	driver.Blobs
	s lateStore
}

func (b lateBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	by, is := b.s.choose()
	if !is {
		return b.Blobs.Put(ctx, key, body, cond)
	}
	b.s.late.Go(func() {
		time.Sleep(by)
		_, _ = b.Blobs.Put(context.WithoutCancel(ctx), key, body, cond)
	})
	return "", storage.ErrUnavailable
}

func (s lateStore) Table(name string) driver.Table { return lateTable{s.Store.Table(name), s} }

type lateTable struct {
	driver.Table
	s lateStore
}

func (t lateTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	by, is := t.s.choose()
	if !is {
		return t.Table.Put(ctx, partition, key, data, cond)
	}
	t.s.late.Go(func() {
		time.Sleep(by)
		_, _ = t.Table.Put(context.WithoutCancel(ctx), partition, key, data, cond)
	})
	return "", storage.ErrUnavailable
}
