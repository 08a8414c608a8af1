package telling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// One is told to one ear, each with the chance that its room gives it; each is told to all.
func TestTellsOneOrEach(t *testing.T) {
	t.Parallel()
	var own, far Ears
	little, much, away := &basket{room: 10_000}, &basket{room: 10_000}, &basket{room: 10_000}
	weighted := func(b *basket, weight int) driver.Receiver {
		return func(data []byte, most int) int {
			if most == 0 {
				return weight
			}
			return b.ear(data, min(most, 1))
		}
	}
	hear(t, &own, "topic", weighted(little, 1))
	hear(t, &own, "topic", weighted(much, 8))
	hear(t, &far, "topic", weighted(away, 1))
	hear(t, &own, "other", func([]byte, int) int { t.Error("another topic's ear was called"); return 1 })
	others := world{peers: []Peer{remote(t, &far)}}
	const tells = 1000
	for range tells {
		tell(t, &own, others, true, 1)
	}
	a, b, c := little.count(), much.count(), away.count()
	if a+b+c != tells {
		t.Errorf("%d + %d + %d took it; want %d", a, b, c, tells)
	}
	for what, n := range map[string]int{"an ear of weight 1": a, "one in another process": c} {
		if n < tells/20 || n > tells/5 { // a tenth is expected; by chance once in 10^8
			t.Errorf("%s took %d of %d; want a tenth", what, n, tells)
		}
	}
	tell(t, &own, others, false, 3)
	tell(t, new(Ears), nil, true, 0)
	tell(t, new(Ears), nil, false, 0)
}

// A stopped peer costs the limit of a question, and is never chosen. It is no error when each is told.
func TestStoppedPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own Ears
		b := &basket{room: 100}
		hear(t, &own, "topic", b.ear)
		others := world{peers: []Peer{stopped(), stopped(), stopped()}}
		began := time.Now()
		tell(t, &own, others, true, 1)
		if took := time.Since(began); took != AskLimit {
			t.Errorf("it took %v; want %v", took, AskLimit)
		}
		began = time.Now()
		tell(t, &own, others, false, 99)
		if took := time.Since(began); took != GiveLimit {
			t.Errorf("telling each took %v; want %v", took, GiveLimit)
		}
	})
}

// One that was chosen and doesn't answer may have heard it: nobody else is told, and the error says so.
func TestLostAnswerIsNoSecondTelling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int32
		chosen := peerFunc(func(ctx context.Context, r Request) (int, error) {
			if r.Kind == Ask {
				return 1, nil
			}
			given.Add(1)
			return silent(ctx)
		})
		n, err := Tell(t.Context(), new(Ears), world{peers: []Peer{chosen, chosen, chosen}}, "topic", nil, true)
		wantError(t, err, driver.ErrUnavailable, context.DeadlineExceeded)
		if n != 0 || !strings.Contains(fmt.Sprint(err), "may have been heard") || given.Load() != 1 {
			t.Errorf("heard by %d, error %v, told %d; want one, and that it may have heard it", n, err, given.Load())
		}
	})
}

// One that has changed its mind, or is gone, is passed over for another, until nobody is left.
func TestRefusalIsPassedOver(t *testing.T) {
	t.Parallel()
	for range 20 {
		var own Ears
		b := &basket{room: 1}
		hear(t, &own, "topic", b.ear)
		hear(t, &own, "topic", func(_ []byte, most int) int { return max(0, 1-most) })
		others := world{peers: []Peer{answers(1, 0, nil), answers(5, 0, ErrGone)}}
		tell(t, &own, others, true, 1)
		tell(t, &own, others, true, 0)
	}
}

// Where others can't be found, the own ears are told, and an error says that some were not.
func TestOthersCantBeFound(t *testing.T) {
	t.Parallel()
	var own Ears
	others := world{err: errors.New("no way")}
	b := &basket{room: 2}
	hear(t, &own, "topic", b.ear)
	tell(t, &own, others, true, 1)
	if n, err := Tell(t.Context(), &own, others, "topic", nil, false); n != 1 || !errors.Is(err, others.err) {
		t.Errorf("each: heard by %d, error %v", n, err)
	}
	if n, err := Tell(t.Context(), &own, others, "topic", nil, true); n != 0 || !errors.Is(err, others.err) {
		t.Errorf("nobody has room: heard by %d, error %v", n, err)
	}
}

// The end of the context ends a telling, with its cause.
func TestContextEndsATelling(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(AskLimit/2, func() { cancel(cause) })
			began := time.Now()
			_, err := Tell(ctx, new(Ears), world{peers: []Peer{stopped()}}, "topic", nil, one)
			if took := time.Since(began); !errors.Is(err, cause) || took != AskLimit/2 {
				t.Errorf("one %v: error %v after %v", one, err, took)
			}
		})
	}
}

// An ear that panics, ends its goroutine or returns nonsense harms nobody else. One that hangs is told once.
func TestEarsMayDoAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		own := logged(&log)
		good := &basket{room: 1000}
		calls, over := 0, make(chan struct{})
		hear(t, own, "topic", func([]byte, int) int { panic("secret") })
		hear(t, own, "topic", func([]byte, int) int { runtime.Goexit(); return 1 })
		hear(t, own, "topic", func([]byte, int) int { return -1000 })
		hear(t, own, "topic", func([]byte, int) int { calls++; <-over; return 1 })
		hear(t, own, "topic", good.ear)
		for range 50 {
			tell(t, own, nil, true, 1)
		}
		if calls != 1 {
			t.Errorf("an ear that hangs was called %d times", calls)
		}
		close(over)
		synctest.Wait()
		tell(t, own, nil, false, 951)
		if calls != 2 || strings.Count(log.String(), "level=ERROR") != 2 {
			t.Errorf("after its return it was called %d times; logged %s", calls-1, log.String())
		}
	})
}

// An ear that hangs with the data may have heard it.
func TestEarHangsWithTheData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own Ears
		over := make(chan struct{})
		defer close(over)
		hear(t, &own, "topic", func(_ []byte, most int) int {
			if most > 0 {
				<-over
			}
			return 1
		})
		if _, err := Tell(t.Context(), &own, nil, "topic", nil, true); err == nil || !strings.Contains(err.Error(), "may have been heard") {
			t.Errorf("error %v", err)
		}
	})
}

// Hearings end by Close, and are lost with the store.
func TestHearingsEnd(t *testing.T) {
	t.Parallel()
	var own Ears
	b := &basket{room: 10}
	h, other := hear(t, &own, "topic", b.ear), hear(t, &own, "second", b.ear)
	if got := strings.Join(own.Topics(), " "); got != "second topic" {
		t.Errorf("topics %s", got)
	}
	h.Close()
	h.Close()
	tell(t, &own, nil, false, 0)
	select {
	case <-other.Lost():
		t.Error("lost at once")
	default:
	}
	own.Lose()
	<-other.Lost()
	later := hear(t, &own, "topic", b.ear)
	tell(t, &own, nil, false, 10)
	own.Close()
	own.Close()
	<-later.Lost()
	_, err := own.Hear("topic", b.ear)
	wantError(t, err, driver.ErrUnavailable)
	_, err = Tell(t.Context(), &own, nil, "topic", nil, false)
	wantError(t, err, driver.ErrUnavailable)
	if n, err := own.Call(t.Context(), Request{Kind: Ask, Topic: "topic"}); n != 0 || !errors.Is(err, ErrGone) {
		t.Errorf("asked after Close: %d, %v", n, err)
	}
	later.Close()
}

// Ears come and go while others tell. Each telling to one is taken once, or by nobody.
func TestConcurrentTellings(t *testing.T) {
	t.Parallel()
	var own, far Ears
	const tells = 300
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		times = map[string]int{}
	)
	ear := func(data []byte, most int) int {
		if most > 0 {
			mu.Lock()
			times[string(data)]++
			mu.Unlock()
		}
		return 1
	}
	hear(t, &far, "topic", ear)
	ended := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					h, err := own.Hear("topic", ear)
					if err != nil {
						t.Error(err)
						return
					}
					h.Close()
				}
			}
		})
	}
	var tellers sync.WaitGroup
	for i := range 3 {
		peer := remote(t, &far)
		tellers.Go(func() {
			for j := range tells {
				if n, err := Tell(t.Context(), &own, world{peers: []Peer{peer}}, "topic", []byte{byte(i), byte(j), byte(j >> 8)}, true); n > 1 || err != nil {
					t.Errorf("heard by %d, error %v", n, err)
				}
			}
		})
	}
	tellers.Wait()
	close(ended)
	all.Wait()
	for data, n := range times {
		if n != 1 {
			t.Errorf("telling %x was taken %d times", data, n)
		}
	}
	if len(times) < tells {
		t.Errorf("%d tellings of %d were taken", len(times), 3*tells)
	}
}

// A caller may use its data again when Tell has returned, also where Tell ended before the ear was called.
func TestDataIsTheCallersAfterATelling(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		var own Ears
		got := make(chan string, 1)
		hear(t, &own, "topic", func(data []byte, _ int) int {
			got <- string(data)
			return 1
		})
		data := []byte("data")
		_, _ = Tell(ctx, &own, nil, "topic", data, false)
		clear(data)
		if s := <-got; s != "data" {
			t.Fatalf("an ear got %q, want the data", s)
		}
	}
}
