package agree_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/storage"
)

const ttl = 30 * time.Second

var (
	errTaken = errors.New("another holder wrote")
	errNever = errors.New("no renewal has failed")
)

// held is a hold, and when its renewals began.
type held struct {
	*agree.Hold
	began   time.Time
	mu      sync.Mutex
	renewed []string // under mu
}

// hold begins a hold whose renewals go as write says. The cause of its end is the last failure.
func hold(ctx context.Context, write func(n int) (lost bool, err error)) *held {
	h := &held{began: time.Now()}
	h.Hold = agree.NewHold(ctx, ttl, h.began, func(context.Context) (bool, error) {
		h.mu.Lock()
		h.renewed = append(h.renewed, time.Since(h.began).String())
		n := len(h.renewed)
		h.mu.Unlock()
		return write(n)
	}, func(r *right.Right, why error) {
		if why == nil {
			why = errNever
		}
		r.End(why)
	})
	return h
}

func (h *held) want(t *testing.T, lasts time.Duration, cause error, renewed ...string) {
	t.Helper()
	<-h.Done()
	if d := time.Since(h.began); d != lasts || !errors.Is(context.Cause(h), cause) {
		t.Errorf("it ended after %v with %v, want %v with %v", d, context.Cause(h), lasts, cause)
	}
	time.Sleep(time.Hour)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.renewed, renewed) {
		t.Errorf("it was renewed after %q, want %q", h.renewed, renewed)
	}
}

// A hold is renewed each third of its TTL, and ends 5/6 of its TTL after the last renewal that succeeded.
func TestAHoldEndsWhenItsRenewalsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hold(t.Context(), func(n int) (bool, error) {
			if n <= 2 {
				return false, nil
			}
			return false, storage.ErrUnavailable
		})
		h.want(t, 45*time.Second, storage.ErrUnavailable, "10s", "20s", "30s", "32.5s", "35s", "37.5s", "40s", "42.5s")
	})
}

// A renewal proves a hold from the renewal's start. Where no renewal has failed, the cause says so.
func TestAHoldIsProvedFromTheStartOfAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hold(t.Context(), func(n int) (bool, error) {
			time.Sleep([]time.Duration{14 * time.Second, time.Hour}[n-1])
			return false, nil
		})
		h.want(t, 35*time.Second, errNever, "10s", "24s")
	})
}

// A hold that is lost ends at once, and no later renewal brings it back.
func TestAHoldThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hold(t.Context(), func(n int) (bool, error) { return n == 2, []error{nil, errTaken}[n-1] })
		h.want(t, 20*time.Second, errTaken, "10s", "20s")
	})
}

// A hold ends with the context that it was made of, and with End. Then it isn't renewed.
func TestAHoldThatIsEnded(t *testing.T) {
	t.Parallel()
	for _, byParent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := hold(ctx, func(int) (bool, error) { return false, nil })
			time.Sleep(15 * time.Second)
			if byParent {
				cancel()
			} else if !h.End(nil) || h.End(errTaken) {
				t.Error("not the first end was the first")
			}
			h.want(t, 15*time.Second, context.Canceled, "10s")
		})
	}
}

// A hold makes one call at a time. A caller that enters waits for a renewal to end, for at most a third of the TTL.
func TestAHoldMakesOneCallAtATime(t *testing.T) {
	t.Parallel()
	for took, waits := range map[time.Duration]time.Duration{0: 0, 4 * time.Second: 3 * time.Second, time.Minute: ttl / 3} {
		synctest.Test(t, func(t *testing.T) {
			h := hold(t.Context(), func(int) (bool, error) { time.Sleep(took); return false, nil })
			time.Sleep(11 * time.Second)
			began := time.Now()
			_, leave, err := h.Enter(t.Context())
			if d := time.Since(began); d != waits || errors.Is(err, storage.ErrUnavailable) != (took == time.Minute) {
				t.Errorf("while a renewal takes %v, a call waits for %v, and then: %v; want %v", took, d, err, waits)
			}
			if err == nil {
				leave()
			}
			h.Close()
			if d, least := time.Since(began), took-time.Second; d < least || h.Err() == nil {
				t.Errorf("a hold is closed after %v, want %v; %v", d, least, h.Err())
			}
		})
	}
}

func TestAHolderThatLooksBeforeItsTimerSeesTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agreetest.EndsByTheClock(t, ttl*5/6, storage.ErrUnavailable, func(int) context.Context {
			return hold(t.Context(), func(int) (bool, error) { return false, storage.ErrUnavailable })
		}, func() {})
	})
}

// A process counts the time from when it saw a state first, and a call under way from when that call saw it.
func TestAMemoryKeepsWhenAStateWasSeenFirst(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		m := agree.MemoryOf[string](s)
		first := agree.Sighting[string]{Doc: "a", ETag: "1", Since: time.Now()}
		m.Note("key", first)
		time.Sleep(time.Second)
		for _, c := range []struct {
			etag storage.ETag
			want time.Duration // for which the state has been seen
		}{{"1", time.Second}, {"2", 0}, {"", 0}, {"", 0}} {
			now := agree.Sighting[string]{ETag: c.etag, Since: time.Now()}
			if got := m.Note("key", now); time.Since(got.Since) != c.want || agree.MemoryOf[string](s).Recall("key") != got {
				t.Errorf("ETag %q has been seen for %v, want %v", c.etag, time.Since(got.Since), c.want)
			}
		}
		if got := agree.MemoryOf[int](s).Recall("key"); !got.Since.IsZero() {
			t.Errorf("another type's memory has %+v", got)
		}
		if left := first.TakenFor(ttl); left != 34*time.Second {
			t.Errorf("it is taken for %v, want 34s", left)
		}
		m.Forget("key")
		if got := m.Recall("key"); got.ETag != "" || !got.Since.IsZero() {
			t.Errorf("after Forget it has %+v", got)
		}
	})
}
