package storagetest_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// modelSubscription is one listener's subscription.
type modelSubscription struct {
	m     *model
	topic string
	rings chan struct{}
}

func (m *model) Listen(topic string) driver.Subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &modelSubscription{m: m, topic: topic, rings: make(chan struct{}, 1)}
	if m.has("rings without a buffer") {
		s.rings = make(chan struct{})
	}
	m.subs[topic] = append(m.subs[topic], s)
	return s
}

func (m *model) Ring(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.bug {
	case "rings queues only":
	case "rings topics in its own store":
		m.ringNow(topic, func(s *modelSubscription) bool { return s.m == m })
	case "rings by a message":
		m.add(topic, storage.Message{})
	default:
		m.ringNow(topic, func(*modelSubscription) bool { return true })
	}
}

// ring rings the listeners of a queue at a time. mu is held.
func (p *place) ring(queue string, at time.Time) {
	if p.has("never rings") || p.has("rings for sends only") && time.Until(at) > 0 {
		return
	}
	time.AfterFunc(max(0, time.Until(at))+time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ringNow(queue, func(*modelSubscription) bool { return true })
	})
}

// ringNow rings the wanted listeners of a topic. mu is held.
func (p *place) ringNow(topic string, wanted func(*modelSubscription) bool) {
	for _, s := range p.subs[topic] {
		if !wanted(s) {
			continue
		}
		select {
		case s.rings <- struct{}{}:
		default:
		}
		if p.has("rings one listener") {
			return
		}
	}
}

func (s *modelSubscription) Rings() <-chan struct{} { return s.rings }

func (s *modelSubscription) Close() {
	if s.m.has("rings after close") {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.subs[s.topic] = slices.DeleteFunc(s.m.subs[s.topic], func(x *modelSubscription) bool { return x == s })
}

// modelClaim is a claim under way. mu guards it.
type modelClaim struct {
	max        int
	visibility time.Duration
	got        []storage.Delivery
	begun      time.Time
	ready      chan struct{} // closed with the first message: the model claims one message at a time, but all those of one send
	since      int           // calls of send when the first message came
}

// claimFor claims a message for a waiting caller. mu is held.
func (p *place) claimFor(queue string, x *message, delay time.Duration) bool {
	if delay > 0 && !p.has("claims what is delayed") || p.has("never claims") {
		return false
	}
	for _, c := range p.claims[queue] {
		if len(c.got) > 0 && c.since != p.sends || len(c.got) >= c.max && !p.has("claims more than max") {
			continue
		}
		if len(c.got) == 0 {
			c.since, c.begun = p.sends, time.Now()
			if p.has("claimed long ago") {
				c.begun = time.Now().Add(-time.Hour)
			}
			close(c.ready)
		}
		x.deliveries++
		x.receipt = storage.Receipt(fmt.Sprintf("r-%012s", p.next()))
		if x.from = p.at(c.visibility); p.has("claims what it doesn't hide") {
			x.from = time.Now()
		}
		p.ring(queue, x.from)
		c.got = append(c.got, storage.Delivery{Body: slices.Clone(x.body), Receipt: x.receipt, Deliveries: x.deliveries, SentAt: x.sent})
		if p.has("claims before it writes") {
			receipt := x.receipt
			x.receipt = ""
			time.AfterFunc(time.Second, func() { // longer than a busy machine takes to look
				p.mu.Lock()
				defer p.mu.Unlock()
				x.receipt = receipt
			})
		}
		return true
	}
	return false
}

func (s *modelSubscription) Claim(most int, visibility time.Duration) (<-chan struct{}, func(context.Context) ([]storage.Delivery, time.Time)) {
	p := s.m.place
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &modelClaim{max: most, visibility: visibility, ready: make(chan struct{})}
	p.claims[s.topic] = append(p.claims[s.topic], c)
	return c.ready, func(context.Context) ([]storage.Delivery, time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.has("claims for who has left") {
			p.claims[s.topic] = slices.DeleteFunc(p.claims[s.topic], func(x *modelClaim) bool { return x == c })
		}
		return c.got, c.begun
	}
}
