package lanes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// The weights change while a worker runs, from the least for Low to the most. Low gets its part of the turns before and
// after, and each message is handled once.
func TestLawWeightsChangeWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, openStore(t), channel.Priorities(purchases))
		names := map[channel.Priority]string{channel.High: "high", channel.Normal: "normal", channel.Low: "low"}
		for p, name := range names {
			s.send(channel.WithPriority(t.Context(), p), "", name, 800)
		}
		weigh := func(w channel.Weights) {
			if err := channel.Weigh(s.channels, purchases, w); err != nil {
				t.Fatal(err)
			}
		}
		weigh(channel.Weights{High: 100, Normal: 100, Low: 1})
		stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
		defer stop()
		s.until(func() bool { return s.count("") >= 1000 })
		if low := s.count("low"); low < 2 || low > 15 {
			t.Errorf("%d of Low among 1000, at 1 of 201 parts", low)
		}

		weigh(channel.Weights{High: 1, Normal: 1, Low: 100})
		high, normal, low := s.count("high"), s.count("normal"), s.count("low")
		s.until(func() bool { return s.count("low") >= low+500 })
		if others := s.count("high") - high + s.count("normal") - normal; others < 2 || others > 50 {
			t.Errorf("%d others beside 500 of Low, at 2 of 102 parts", others)
		}

		weigh(channel.Weights{}) // the default
		s.wait(2400)
		for id, n := range s.times {
			if n != 1 {
				t.Errorf("message %s was handled %d times", id, n)
			}
		}
	})
}

// Weights that can't be right are refused, and so are those of a queue without priorities.
func TestBadWeightsAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, openStore(t), channel.Priorities(purchases))
	plain, laned := newShop(t, openStore(t)), newShop(t, openStore(t), channel.Lanes(purchases, 2))
	for _, c := range []struct {
		channels *channel.Channels
		queue    string
		weights  channel.Weights
		want     string
	}{
		{s.channels, purchases, channel.Weights{High: 101, Normal: -1, Low: 1000}, "weight high is 101"},
		{s.channels, purchases, channel.Weights{High: 101, Normal: -1, Low: 1000}, "weight normal is -1"},
		{s.channels, purchases, channel.Weights{High: 101, Normal: -1, Low: 1000}, "weight low is 1000; want 1 to 100"},
		{s.channels, "others", channel.Weights{}, `queue "others"`},
		{plain.channels, purchases, channel.Weights{Low: 2}, "the queue has no priorities"},
		{laned.channels, purchases, channel.Weights{Low: 2}, "the queue has no priorities"},
	} {
		err := channel.Weigh(c.channels, c.queue, c.weights)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s, %+v: got %v; want %q", c.queue, c.weights, err, c.want)
		}
	}
	if err := channel.Weigh(s.channels, purchases, channel.Weights{High: 100, Normal: 1, Low: 100}); err != nil {
		t.Error(err)
	}
}
