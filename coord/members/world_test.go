package members_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/members"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	group = "commands"
	beat  = 10 * time.Second
)

func join(t *testing.T, s *storage.Store, group string, cfg members.Config) *members.Member {
	t.Helper()
	cfg.Beat = beat
	m, err := members.Join(s, group, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func leave(t *testing.T, all ...*members.Member) {
	t.Helper()
	for _, m := range all {
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func active(m *members.Member) bool {
	is, _ := m.Active()
	return is
}

func actives(all []*members.Member) (n int) {
	for _, m := range all {
		if active(m) {
			n++
		}
	}
	return n
}

// await waits until a member is active or not, and returns how long that took.
func await(t *testing.T, m *members.Member, want bool) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		is, changed := m.Active()
		if is == want {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-time.After(time.Hour):
			t.Fatalf("after an hour, is it active: %v", is)
		}
	}
}

// rows returns a group's keys.
func rows(t *testing.T, s *storage.Store) (keys []string) {
	t.Helper()
	for row, err := range s.Table("members").Query(t.Context(), group, storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key)
	}
	return keys
}

// weather makes calls slow, fails them before or after their effect, and lets some hang until their contexts end.
func weather(s *storage.Store, r *rand.Rand, fair *atomic.Bool) *storage.Store {
	var mu sync.Mutex
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	return storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
		if fair.Load() {
			return do()
		}
		time.Sleep(time.Duration(roll(2000)) * time.Millisecond)
		switch roll(8) {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			return op.Fail(storage.ErrUnavailable)
		case 2:
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return do()
	})
}

// A lateStore writes rows half a beat late, even when the caller has given up.
type lateStore struct{ driver.Store }

func (s lateStore) Table(name string) driver.Table { return lateTable{s.Store.Table(name)} }

type lateTable struct{ driver.Table }

func (x lateTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (etag storage.ETag, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(beat / 2)
		etag, err = x.Table.Put(context.WithoutCancel(ctx), partition, key, data, cond)
	}()
	select {
	case <-done:
		return etag, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
