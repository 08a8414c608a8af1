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

// MaxPublish is how many bytes one telling may bring; see [Store.Publish].
const MaxPublish = driver.MaxPublish

// A Receiver takes what is told on a topic. With most 0 it is only asked, and returns how many would take data now.
// Else it gives data to at most most ([Everyone] for no bound), and returns how many took it; an ear may well refuse
// what it would have taken before.
//
// An ear is called concurrently, and returns at once. The data is its own. An ear that panics or hangs took nothing.
// One that hangs is not called again until it has returned.
type Receiver = driver.Receiver

// Everyone is the most that a [Receiver] is called with, when all shall take the data.
const Everyone = driver.Everyone

// Subscribe calls ear for what is told on a topic, until the [Registration] is closed. It is ready when it returns: ear
// is called for what any process tells afterwards. The topic's name obeys [CheckName]. Where the store doesn't ring,
// the error is [ErrUnsupported].
func (s *Store) Subscribe(ctx context.Context, topic string, ear Receiver) (*Registration, error) {
	var wrong error
	if ear == nil {
		wrong = fmt.Errorf("%w: the ear is nil", ErrInvalid)
	}
	p, err := s.topic(ctx, topic, wrong)
	if err != nil {
		return nil, p.fail("hear", err)
	}
	n := s.tellings.of(topic)
	h, err := s.listener.Subscribe(ctx, topic, func(data []byte, most int) int {
		took := ear(data, most)
		if most > 0 {
			n.taken.Add(int64(took))
		}
		return took
	})
	if err != nil {
		return nil, p.fail("hear", err)
	}
	return &Registration{h}, nil
}

// Publish hands data, at most [MaxPublish] bytes, to those that hear a topic at this moment, in this process and in
// others. It returns how many took it, which may be 0. A telling is heard at most once and is stored nowhere: what must
// not be missed is written to the store first, and looked for now and then.
//
// With one set at most one takes it, chosen at random among those that would. An error then says whether the data may
// have been heard. Without one, each gets it. heard counts those that took it and answered; a process that doesn't
// answer is no error, unless it has never answered this process: then nothing may pass between the two. An error means
// that some were not told, and says how many can't be reached.
func (s *Store) Publish(ctx context.Context, topic string, data []byte, one bool) (heard int, err error) {
	var wrong error
	if len(data) > MaxPublish {
		wrong = fmt.Errorf("%w: data of %d bytes; at most %d can be told", ErrTooLarge, len(data), MaxPublish)
	}
	p, err := s.topic(ctx, topic, wrong)
	if err != nil {
		return 0, p.fail("tell", err)
	}
	n := s.tellings.of(topic)
	n.told.Add(1)
	heard, err = s.listener.Publish(ctx, topic, data, one)
	n.heard.Add(int64(heard))
	if err != nil {
		n.failed.Add(1)
		return heard, p.fail("tell", err)
	}
	return heard, nil
}

// Tellings counts a topic's tellings by one store, since it was opened.
type Tellings struct {
	Topic  string
	Told   int64 // calls of Tell
	Failed int64 // of these, those with an error
	Heard  int64 // how often others, and own ears, took what was told
	Taken  int64 // what own ears took, from this store and from others
}

// Tellings lists what was told and heard, by topic in byte order.
func (s *Store) Tellings() []Tellings {
	var all []Tellings
	for topic, n := range s.tellings.byTopic.Range {
		n := n.(*tally)
		all = append(all, Tellings{Topic: topic.(string), Told: n.told.Load(), Failed: n.failed.Load(), Heard: n.heard.Load(), Taken: n.taken.Load()})
	}
	slices.SortFunc(all, func(a, b Tellings) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}

// tellings has a tally for each topic.
type tellings struct{ byTopic sync.Map }

type tally struct{ told, failed, heard, taken atomic.Int64 }

func (t *tellings) of(topic string) *tally {
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

// Lost is closed when the connection is lost, and when the store is closed: what is told may no longer come. A lost
// Hearing stays lost. Close it, and call [Store.Subscribe] again.
func (h *Registration) Lost() <-chan struct{} { return h.d.Lost() }

// Close ends the Hearing. A call of the ear that has begun may still be under way. Closing twice is harmless.
func (h *Registration) Close() { h.d.Close() }
