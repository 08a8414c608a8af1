package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// However the function ends, the lease is free at once, and its fence goes on growing.
func TestDoReleasesInEveryWayOut(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		wrong := errors.New("wrong")
		for i, end := range []func() error{
			func() error { return nil },
			func() error { return wrong },
			func() error { panic(wrong) },
			func() error { runtime.Goexit(); return nil },
		} {
			var got, panicked any
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() { panicked = recover() }()
				err := lease.Do(t.Context(), s, name, lease.Config{}, func(ctx context.Context, l *lease.Lease) error {
					if ctx.Err() != nil || l.Fence() != int64(i+1) {
						t.Errorf("context %v, fence %d", ctx.Err(), l.Fence())
					}
					return end()
				})
				got = err
			}()
			<-over
			if want := [][2]any{{nil, nil}, {wrong, nil}, {nil, wrong}, {nil, nil}}[i]; got != want[0] || panicked != want[1] {
				t.Errorf("%d: Do returned %v and panicked with %v; want %v", i, got, panicked, want)
			}
			wantState(t, s, false, int64(i+1))
		}
	})
}

func TestDoTellsOfALoss(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		wrong := errors.New("wrong")
		for _, err := range []error{nil, wrong} {
			got := lease.Do(t.Context(), link.Store, name, lease.Config{}, func(ctx context.Context, _ *lease.Lease) error {
				link.Cut()
				<-ctx.Done()
				link.Restore()
				return err
			})
			if !errors.Is(got, lease.ErrLost) || !strings.Contains(got.Error(), name) || err != nil && !errors.Is(got, err) {
				t.Errorf("%v; want a loss and %v", got, err)
			}
		}
		got := lease.Do(t.Context(), link.Store, name, lease.Config{}, func(ctx context.Context, _ *lease.Lease) error {
			link.Cut()
			<-ctx.Done()
			link.Restore()
			return fmt.Errorf("read: %w", (*os.PathError)(nil)) // whose Unwrap panics
		})
		if !errors.Is(got, lease.ErrLost) || !strings.Contains(got.Error(), "read: ") {
			t.Errorf("%v; want a loss and the error that can't be unwrapped", got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(wrong)
		if err := lease.Do(ctx, s, name, lease.Config{}, func(context.Context, *lease.Lease) error { return nil }); !errors.Is(err, wrong) {
			t.Errorf("under a context that has ended: %v", err)
		}
		if err := lease.Do(t.Context(), s, name, lease.Config{}, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("without a function: %v", err)
		}
	})
}

func TestAnyCallOfDoFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 4, func(t *testing.T, failing, s *storage.Store) {
		ran := 0
		err := lease.Do(t.Context(), failing, name, lease.Config{TTL: ttl}, func(ctx context.Context, _ *lease.Lease) error {
			ran++
			time.Sleep(ttl)
			return ctx.Err()
		})
		if err != nil || ran != 1 {
			t.Errorf("Do returned %v; the function ran %d times", err, ran)
		}
		wantState(t, s, false, 1)
	})
}

// Two loops change one document. Each change takes a second. Nobody waits while the document is free.
func TestTwoLoopsOnOneDocument(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		const each = 20
		var (
			loops  sync.WaitGroup
			inside atomic.Int32
			waits  [2]time.Duration
		)
		begin := time.Now()
		for i := range waits {
			loops.Go(func() {
				for range each {
					asked := time.Now()
					err := lease.Update(t.Context(), s, "docs", "counter", lease.Config{}, func(ctx context.Context, old []byte) ([]byte, error) {
						waits[i] += time.Since(asked)
						if inside.Add(1) != 1 {
							t.Error("two at once")
						}
						time.Sleep(time.Second)
						inside.Add(-1)
						return append(bytes.Clone(old), 'x'), nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		loops.Wait()
		took := time.Since(begin)
		d, err := lease.Read(t.Context(), s.Blobs("docs"), "counter")
		if err != nil || len(d.Content) != 2*each || d.Fence != 2*each || d.Lease != "update/docs/counter" {
			t.Errorf("the document is %d bytes with fence %d of %s, %v", len(d.Content), d.Fence, d.Lease, err)
		}
		if took != 2*each*time.Second {
			t.Errorf("took %v, want %v: a second for each change", took, 2*each*time.Second)
		}
		if sum := waits[0] + waits[1]; sum < each*time.Second || sum > 2*took {
			t.Errorf("they waited for %v, %v", waits[0], waits[1])
		}
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		wrong := errors.New("wrong")
		long := strings.Repeat("k", storage.MaxKey)
		for _, key := range []string{"a", long} {
			for _, c := range []struct {
				old, new, want string
				err            error
			}{
				{"", "1", "1", nil}, {"1", "", "1", nil}, {"1", "2", "1", wrong}, {"1", "2", "2", nil},
			} {
				err := lease.Update(t.Context(), s, "docs", key, lease.Config{}, func(_ context.Context, old []byte) ([]byte, error) {
					if string(old) != c.old {
						t.Errorf("got %q, want %q", old, c.old)
					}
					if c.new == "" {
						return nil, c.err
					}
					return []byte(c.new), c.err
				})
				if err != c.err {
					t.Errorf("%+v: %v", c, err)
				}
				if d, err := lease.Read(t.Context(), s.Blobs("docs"), key); err != nil || string(d.Content) != c.want {
					t.Errorf("%+v: %q, %v", c, d.Content, err)
				}
			}
		}
		for _, c := range [][2]string{{"docs", ""}, {"d", "a"}, {"docs", "a\n"}} {
			err := lease.Update(t.Context(), s, c[0], c[1], lease.Config{}, func(context.Context, []byte) ([]byte, error) { return nil, wrong })
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q: %v", c, err)
			}
		}
		if err := lease.Update(t.Context(), s, "docs", "a", lease.Config{}, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("without a function: %v", err)
		}
	})
}

func TestUpdateLeavesCoordinationAlone(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, container := range []string{"leases", "gates", "counters", "quorum"} {
			err := lease.Update(t.Context(), s, container, "x", lease.Config{}, func(context.Context, []byte) ([]byte, error) { return []byte("x"), nil })
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("a document in %s: %v", container, err)
			}
		}
	})
}

// A holder whose proof has ended writes between another's read and write. That write isn't lost.
func TestUpdateAfterAnotherWrite(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		old := lease.Fenced(blobs, "update/docs/a", 1)
		if _, err := old.Put(t.Context(), "a", []byte("1"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := lease.Update(t.Context(), s, "docs", "a", lease.Config{}, func(_ context.Context, there []byte) ([]byte, error) {
			if got = append(got, string(there)); len(got) == 1 {
				if _, err := old.Put(t.Context(), "a", []byte("1 late"), storage.Condition{}); err != nil {
					t.Error(err)
				}
			}
			return append(bytes.Clone(there), " and 2"...), nil
		})
		if err != nil || fmt.Sprint(got) != "[1 1 late]" {
			t.Errorf("called with %q, %v", got, err)
		}
		if d, err := lease.Read(t.Context(), blobs, "a"); err != nil || string(d.Content) != "1 late and 2" {
			t.Errorf("the document is %q, %v", d.Content, err)
		}
	})
}

func TestAnyCallOfUpdateFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 7, func(t *testing.T, failing, s *storage.Store) {
		ran := 0
		err := lease.Update(t.Context(), failing, "docs", "a", lease.Config{TTL: ttl}, func(context.Context, []byte) ([]byte, error) {
			ran++
			return fmt.Append(nil, ran), nil
		})
		// The read before the function is made once, and the caller may repeat it all.
		if (err != nil) != (ran == 0) || err != nil && !errors.Is(err, storage.ErrUnavailable) || ran > 1 {
			t.Errorf("Update returned %v; the function ran %d times", err, ran)
		}
		if d, rerr := lease.Read(t.Context(), s.Blobs("docs"), "a"); err == nil && (rerr != nil || string(d.Content) != "1") {
			t.Errorf("the document is %q, %v", d.Content, rerr)
		}
		if info, err := lease.State(t.Context(), s, "update/docs/a"); err != nil || info.Held || info.Fence != 1 {
			t.Errorf("the lease is %+v, %v", info, err)
		}
	})
}

// Six processes add lines to one document while calls fail, hang and have late effects. Each line that was added with
// success is there once, and no two processes change the document at once.
func TestUpdatesInBadWeather(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var (
					all, late sync.WaitGroup
					mu        sync.Mutex
					inside    = map[string]context.Context{} // of the functions that run, by line
					done      []string
				)
				for i := range uint64(6) {
					mine := weather(s, rand.New(rand.NewPCG(i, seed)), &late)
					all.Go(func() {
						for j := range 5 {
							line := fmt.Sprintf("%d-%d\n", i, j)
							err := lease.Update(t.Context(), mine, "docs", "a", lease.Config{TTL: ttl}, func(ctx context.Context, old []byte) ([]byte, error) {
								mu.Lock()
								for other, its := range inside {
									if its.Err() == nil && ctx.Err() == nil {
										t.Errorf("%q and %q at once", line, other)
									}
								}
								inside[line] = ctx
								mu.Unlock()
								time.Sleep(time.Duration(len(old)%7) * time.Second)
								mu.Lock()
								delete(inside, line)
								mu.Unlock()
								return []byte(string(old) + line), nil
							})
							if err == nil {
								mu.Lock()
								done = append(done, line)
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
				late.Wait()
				d, err := lease.Read(t.Context(), s.Blobs("docs"), "a")
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range done {
					if strings.Count("\n"+string(d.Content), "\n"+line) != 1 {
						t.Errorf("the line %q is not there once", line)
					}
				}
				if len(done) < 10 {
					t.Errorf("%d updates succeeded", len(done))
				}
			})
		})
	}
}
