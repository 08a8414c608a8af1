package pubsub

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

// Data for one receiver is given to one by chance, weighted by the room that each has. Data for each is given to all.
func TestPublishToOneOrEach(t *testing.T) {
	t.Parallel()
	var own, far Receivers
	little, much, away := &basket{room: 10_000}, &basket{room: 10_000}, &basket{room: 10_000}
	weighted := func(b *basket, weight int) driver.Receiver {
		return func(data []byte, most int) int {
			if most == 0 {
				return weight
			}
			return b.receiver(data, min(most, 1))
		}
	}
	subscribe(t, &own, "topic", weighted(little, 1))
	subscribe(t, &own, "topic", weighted(much, 8))
	subscribe(t, &far, "topic", weighted(away, 1))
	subscribe(t, &own, "other", func([]byte, int) int { t.Error("another topic's receiver was called"); return 1 })
	others := world{peers: []Peer{remote(t, &far)}}
	const publications = 1000
	for range publications {
		publish(t, &own, others, true, 1)
	}
	a, b, c := little.count(), much.count(), away.count()
	if a+b+c != publications {
		t.Errorf("%d + %d + %d took it; want %d", a, b, c, publications)
	}
	for what, n := range map[string]int{"a receiver of weight 1": a, "one in another process": c} {
		if n < publications/20 || n > publications/5 { // a tenth is expected; by chance once in 10^8
			t.Errorf("%s took %d of %d; want a tenth", what, n, publications)
		}
	}
	publish(t, &own, others, false, 3)
	publish(t, new(Receivers), nil, true, 0)
	publish(t, new(Receivers), nil, false, 0)
}

// A stopped peer costs the limit of a question, and is never chosen. It is no error where the data is for each.
func TestStoppedPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own Receivers
		b := &basket{room: 100}
		subscribe(t, &own, "topic", b.receiver)
		others := world{peers: []Peer{stopped(), stopped(), stopped()}}
		began := time.Now()
		publish(t, &own, others, true, 1)
		if took := time.Since(began); took != AskLimit {
			t.Errorf("it took %v; want %v", took, AskLimit)
		}
		began = time.Now()
		publish(t, &own, others, false, 99)
		if took := time.Since(began); took != GiveLimit {
			t.Errorf("publication each took %v; want %v", took, GiveLimit)
		}
	})
}

// One that was chosen and doesn't answer may have received it: nobody else is asked, and the error says so.
func TestLostAnswerIsNoSecondPublication(t *testing.T) {
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
		n, err := Publish(t.Context(), new(Receivers), world{peers: []Peer{chosen, chosen, chosen}}, "topic", nil, true)
		wantError(t, err, driver.ErrUnavailable, context.DeadlineExceeded)
		if n != 0 || !strings.Contains(fmt.Sprint(err), "may have been received") || given.Load() != 1 {
			t.Errorf("received by %d, error %v, published %d; want one, and that it may have received it", n, err, given.Load())
		}
	})
}

// One that has changed its mind, or is gone, is passed over for another, until nobody is left.
func TestRefusalIsPassedOver(t *testing.T) {
	t.Parallel()
	for range 20 {
		var own Receivers
		b := &basket{room: 1}
		subscribe(t, &own, "topic", b.receiver)
		subscribe(t, &own, "topic", func(_ []byte, most int) int { return max(0, 1-most) })
		others := world{peers: []Peer{answers(1, 0, nil), answers(5, 0, ErrGone)}}
		publish(t, &own, others, true, 1)
		publish(t, &own, others, true, 0)
	}
}

// Where others can't be found, the own receivers are called, and an error says that some were not reached.
func TestOthersCantBeFound(t *testing.T) {
	t.Parallel()
	var own Receivers
	others := world{err: errors.New("no way")}
	b := &basket{room: 2}
	subscribe(t, &own, "topic", b.receiver)
	publish(t, &own, others, true, 1)
	if n, err := Publish(t.Context(), &own, others, "topic", nil, false); n != 1 || !errors.Is(err, others.err) {
		t.Errorf("each: received by %d, error %v", n, err)
	}
	if n, err := Publish(t.Context(), &own, others, "topic", nil, true); n != 0 || !errors.Is(err, others.err) {
		t.Errorf("nobody has room: received by %d, error %v", n, err)
	}
}

// The end of the context ends a publication, with its cause.
func TestContextEndsAPublication(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(AskLimit/2, func() { cancel(cause) })
			began := time.Now()
			_, err := Publish(ctx, new(Receivers), world{peers: []Peer{stopped()}}, "topic", nil, one)
			if took := time.Since(began); !errors.Is(err, cause) || took != AskLimit/2 {
				t.Errorf("one %v: error %v after %v", one, err, took)
			}
		})
	}
}

// A receiver that panics, ends its goroutine or returns nonsense harms nobody else. One that hangs is called once.
func TestEarsMayDoAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		own := logged(&log)
		good := &basket{room: 1000}
		calls, over := 0, make(chan struct{})
		subscribe(t, own, "topic", func([]byte, int) int { panic("secret") })
		subscribe(t, own, "topic", func([]byte, int) int { runtime.Goexit(); return 1 })
		subscribe(t, own, "topic", func([]byte, int) int { return -1000 })
		subscribe(t, own, "topic", func([]byte, int) int { calls++; <-over; return 1 })
		subscribe(t, own, "topic", good.receiver)
		for range 50 {
			publish(t, own, nil, true, 1)
		}
		if calls != 1 {
			t.Errorf("a receiver that hangs was called %d times", calls)
		}
		close(over)
		synctest.Wait()
		publish(t, own, nil, false, 951)
		if calls != 2 || strings.Count(log.String(), "level=ERROR") != 2 {
			t.Errorf("after its return it was called %d times; logged %s", calls-1, log.String())
		}
	})
}

// A receiver that hangs with the data may have received it.
func TestEarHangsWithTheData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var own Receivers
		over := make(chan struct{})
		defer close(over)
		subscribe(t, &own, "topic", func(_ []byte, most int) int {
			if most > 0 {
				<-over
			}
			return 1
		})
		if _, err := Publish(t.Context(), &own, nil, "topic", nil, true); err == nil || !strings.Contains(err.Error(), "may have been received") {
			t.Errorf("error %v", err)
		}
	})
}

// Registrations end by Close, and are lost with the store.
func TestRegistrationsEnd(t *testing.T) {
	t.Parallel()
	var own Receivers
	b := &basket{room: 10}
	h, other := subscribe(t, &own, "topic", b.receiver), subscribe(t, &own, "second", b.receiver)
	if got := strings.Join(own.Topics(), " "); got != "second topic" {
		t.Errorf("topics %s", got)
	}
	h.Close()
	h.Close()
	publish(t, &own, nil, false, 0)
	select {
	case <-other.Lost():
		t.Error("lost at once")
	default:
	}
	own.Lose()
	<-other.Lost()
	later := subscribe(t, &own, "topic", b.receiver)
	publish(t, &own, nil, false, 10)
	own.Close()
	own.Close()
	<-later.Lost()
	_, err := own.Subscribe("topic", b.receiver)
	wantError(t, err, driver.ErrUnavailable)
	_, err = Publish(t.Context(), &own, nil, "topic", nil, false)
	wantError(t, err, driver.ErrUnavailable)
	if n, err := own.Call(t.Context(), Request{Kind: Ask, Topic: "topic"}); n != 0 || !errors.Is(err, ErrGone) {
		t.Errorf("asked after Close: %d, %v", n, err)
	}
	later.Close()
}

// Receivers come and go while others publish. Each publication to one is taken once, or by nobody.
func TestConcurrentPublications(t *testing.T) {
	t.Parallel()
	var own, far Receivers
	const publications = 300
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		times = map[string]int{}
	)
	receiver := func(data []byte, most int) int {
		if most > 0 {
			mu.Lock()
			times[string(data)]++
			mu.Unlock()
		}
		return 1
	}
	subscribe(t, &far, "topic", receiver)
	ended := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					h, err := own.Subscribe("topic", receiver)
					if err != nil {
						t.Error(err)
						return
					}
					h.Close()
				}
			}
		})
	}
	var publishers sync.WaitGroup
	for i := range 3 {
		peer := remote(t, &far)
		publishers.Go(func() {
			for j := range publications {
				if n, err := Publish(t.Context(), &own, world{peers: []Peer{peer}}, "topic", []byte{byte(i), byte(j), byte(j >> 8)}, true); n > 1 || err != nil {
					t.Errorf("received by %d, error %v", n, err)
				}
			}
		})
	}
	publishers.Wait()
	close(ended)
	all.Wait()
	for data, n := range times {
		if n != 1 {
			t.Errorf("publication %x was taken %d times", data, n)
		}
	}
	if len(times) < publications {
		t.Errorf("%d publications of %d were taken", len(times), 3*publications)
	}
}

// A caller may use its data again when Publish has returned, also where Publish ended before the receiver was called.
func TestDataIsTheCallersAfterAPublication(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		var own Receivers
		got := make(chan string, 1)
		subscribe(t, &own, "topic", func(data []byte, _ int) int {
			got <- string(data)
			return 1
		})
		data := []byte("data")
		_, _ = Publish(ctx, &own, nil, "topic", data, false)
		clear(data)
		if s := <-got; s != "data" {
			t.Fatalf("a receiver got %q, want the data", s)
		}
	}
}
