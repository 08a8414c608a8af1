package throttle_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

// A pause of a queue isn't taken for slow service: requests are let through until messages wait for longer than they
// may, and again as soon as the queue is served.
func TestBacklogOfAPausedQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Within: time.Minute}})
		y.look()
		want(t, "the first ones", y.orders(200), 200)
		for range 2 {
			y.look()
			y.serve(50)
			time.Sleep(5 * time.Second) // ten a second
		}
		y.look()
		y.serve(200)
		y.look()
		paused := time.Now()
		for time.Since(paused) < 50*time.Second {
			y.look() // else the rate limiter would look while these are sent
			want(t, "in the pause", y.orders(20), 20)
			time.Sleep(5 * time.Second)
		}
		time.Sleep(15 * time.Second)
		y.look()
		x := y.order("a")
		if x == nil || x.RetryAfter() > 10*time.Second {
			t.Errorf("when messages wait for longer than a minute: %v", x)
		}
		y.serve(1000)
		time.Sleep(5 * time.Second)
		y.look()
		want(t, "after the pause", y.orders(20), 20)
	})
}

// A queue that was never served faster tells nothing, so a rate limiter before it begins as one before an empty queue.
func TestBacklogOfAQueueThatIsPausedAtFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		y := newYard(t, throttle.Config{Backlog: throttle.Backlog{Within: time.Minute}})
		for range 8 {
			y.look() // else the rate limiter would look while these are sent
			want(t, "in the pause", y.orders(20), 20)
			time.Sleep(5 * time.Second)
		}
		time.Sleep(30 * time.Second)
		y.look()
		want(t, "when messages wait for longer than a minute", y.orders(20), 0)
	})
}
