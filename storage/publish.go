package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage/driver"
)

// MaxPublish is how many bytes one publication may bring; see [Store.Publish].
const MaxPublish = driver.MaxPublish

// A Receiver takes what is published on a topic. With most 0 it is only asked, and returns how many would take data
// now. Else it gives data to at most most ([Everyone] for no bound), and returns how many took it; a receiver may well
// refuse what it would have taken before.
//
// A receiver is called concurrently, and returns at once. The data is its own. A receiver that panics or hangs took
// nothing. One that hangs is not called again until it has returned.
type Receiver = driver.Receiver

// Everyone is the most that a [Receiver] is called with, when all shall take the data.
const Everyone = driver.Everyone

// Subscribe calls the receiver for what is published on a topic, until the [Registration] is closed. It is ready when
// it returns: the receiver is called for what any process publishes afterwards. The topic's name obeys [CheckName].
// Where the store doesn't ring, the error is [ErrUnsupported].
func (s *Store) Subscribe(ctx context.Context, topic string, receiver Receiver) (*Registration, error) {
	var wrong error
	if receiver == nil {
		wrong = fmt.Errorf("%w: the receiver is nil", ErrInvalid)
	}
	p, err := s.topic(ctx, topic, wrong)
	if err != nil {
		return nil, p.fail("subscribe", err)
	}
	n := s.publications.of(topic)
	h, err := s.listener.Subscribe(ctx, topic, func(data []byte, most int) int {
		took := receiver(data, most)
		if most > 0 {
			n.taken.Add(int64(took))
		}
		return took
	})
	if err != nil {
		return nil, p.fail("subscribe", err)
	}
	return &Registration{h}, nil
}

// Publish hands data, at most [MaxPublish] bytes, to the subscribers of a topic at this moment, in this process and in
// others. It returns how many took it, which may be 0. A publication is received at most once and is stored nowhere:
// what must not be missed is written to the store first, and looked for now and then.
//
// With one set at most one takes it, chosen at random among those that would. An error then says whether the data may
// have been received. Without one, each gets it. received counts those that took it and answered; a process that
// doesn't answer is no error, unless it has never answered this process: then nothing may pass between the two. An
// error means that some were not reached, and says how many can't be reached.
func (s *Store) Publish(ctx context.Context, topic string, data []byte, one bool) (received int, err error) {
	var wrong error
	if len(data) > MaxPublish {
		wrong = fmt.Errorf("%w: data of %d bytes; at most %d can be published", ErrTooLarge, len(data), MaxPublish)
	}
	p, err := s.topic(ctx, topic, wrong)
	if err != nil {
		return 0, p.fail("publish", err)
	}
	n := s.publications.of(topic)
	n.published.Add(1)
	received, err = s.listener.Publish(ctx, topic, data, one)
	n.received.Add(int64(received))
	if err != nil {
		n.failed.Add(1)
		return received, p.fail("publish", err)
	}
	return received, nil
}

// Publications counts a topic's publications by one store, since it was opened.
type Publications struct {
	Topic     string
	Published int64 // calls of Publish
	Failed    int64 // of these, those with an error
	Received  int64 // how often others, and own receivers, took what was published
	Taken     int64 // what own receivers took, from this store and from others
}

// Publications lists what was published and received, by topic in byte order.
func (s *Store) Publications() []Publications {
	var all []Publications
	for topic, n := range s.publications.byTopic.Range {
		n := n.(*tally)
		all = append(all, Publications{Topic: topic.(string), Published: n.published.Load(), Failed: n.failed.Load(), Received: n.received.Load(), Taken: n.taken.Load()})
	}
	slices.SortFunc(all, func(a, b Publications) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}

// publications has a tally for each topic.
type publications struct{ byTopic sync.Map }

type tally struct{ published, failed, received, taken atomic.Int64 }

func (t *publications) of(topic string) *tally {
	n, _ := t.byTopic.LoadOrStore(topic, new(tally))
	return n.(*tally)
}

// topic returns the place that a topic's errors name, and what is wrong before a call begins.
func (s *Store) topic(ctx context.Context, name string, wrong error) (place, error) {
	p := place{kind: "topic", name: name, fault: CheckName(name)}
	err := p.ready(ctx, wrong)
	if err == nil && s.listener == nil {
		err = fmt.Errorf("%w: this store doesn't ring; open it with a doorbell", ErrUnsupported)
	}
	return p, err
}

// A Registration is the time in which a [Receiver] is called; see [Store.Subscribe]. Close it.
type Registration struct{ d driver.Registration }

// Lost is closed when the connection is lost, and when the store is closed: what is published may no longer come. A
// lost Registration stays lost. Close it, and call [Store.Subscribe] again.
func (h *Registration) Lost() <-chan struct{} { return h.d.Lost() }

// Close ends the Registration. A call of the receiver that has begun may still be under way. Closing twice is harmless.
func (h *Registration) Close() { h.d.Close() }
