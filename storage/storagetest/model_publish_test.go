package storagetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// modelRegistration is one receiver's registration.
type modelRegistration struct {
	m        *model
	topic    string
	receiver driver.Receiver
	lost     chan struct{}
}

func (h *modelRegistration) Lost() <-chan struct{} { return h.lost }

func (h *modelRegistration) Close() {
	if h.m.has("subscribes after close") {
		return
	}
	h.m.earsMu.Lock()
	defer h.m.earsMu.Unlock()
	h.m.receivers = slices.DeleteFunc(slices.Clone(h.m.receivers), func(x *modelRegistration) bool { return x == h })
}

func (m *model) Subscribe(ctx context.Context, topic string, receiver driver.Receiver) (driver.Registration, error) {
	h := &modelRegistration{m: m, topic: topic, receiver: receiver, lost: make(chan struct{})}
	add := func() {
		m.earsMu.Lock()
		defer m.earsMu.Unlock()
		m.receivers = append(m.receivers, h)
	}
	if m.has("subscribes late") {
		time.AfterFunc(50*time.Millisecond, add)
		return h, nil
	}
	err := m.do(ctx, "subscribe", func() error {
		add()
		return nil
	})
	return h, err
}

// deafen loses the registrations of a store that is closed.
func (m *model) deafen() {
	m.earsMu.Lock()
	defer m.earsMu.Unlock()
	m.receivers = slices.DeleteFunc(slices.Clone(m.receivers), func(h *modelRegistration) bool {
		if h.m == m && !m.has("never lost") {
			close(h.lost)
		}
		return h.m == m
	})
}

func (m *model) Publish(ctx context.Context, topic string, data []byte, one bool) (received int, err error) {
	var list []*modelRegistration
	err = m.do(ctx, "publish", func() error {
		m.earsMu.Lock()
		defer m.earsMu.Unlock()
		for _, h := range m.receivers {
			if (h.topic == topic || m.has("publishes to whatever the topic")) && (h.m == m || !m.has("publishes to its own store only")) {
				list = append(list, h)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case !one:
		for _, h := range list {
			if n := m.call(h, data, storage.Everyone); n > 0 || !m.has("counts those that refuse") {
				received += n
			} else {
				received++
			}
		}
		return received, nil
	}
	weights := make([]int, len(list))
	for i, h := range list {
		weights[i] = m.call(h, data, 0)
		if m.has("publishes to one by turns") {
			weights[i] = min(weights[i], 1)
		}
	}
	for {
		i := m.choose(weights)
		if i < 0 {
			return 0, nil
		}
		weights[i] = 0
		n := m.call(list[i], data, 1)
		if m.has("publishes to one twice") {
			n = m.call(list[i], data, 1)
		}
		if n > 0 || m.has("gives up when one refuses") {
			return n, nil
		}
	}
}

// choose returns the place of a weight by chance, or -1 if there is none.
func (m *model) choose(weights []int) int {
	sum := 0
	for i, w := range weights {
		if sum += w; w > 0 && m.has("publishes to the first one") {
			return i
		}
	}
	if sum == 0 {
		return -1
	}
	at := rand.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	panic("unreachable")
}

// call calls a receiver, which may panic.
func (m *model) call(h *modelRegistration, data []byte, most int) (n int) {
	if !m.has("dies of a receiver") {
		defer func() {
			if recover() != nil {
				n = 0
			}
		}()
	}
	if !m.has("receivers share data") {
		data = slices.Clone(data)
	}
	if m.has("cuts what is published") {
		data = data[:min(len(data), 1000)]
	}
	n = h.receiver(data, most)
	if n > most && most > 0 {
		panic(fmt.Sprint("a receiver took ", n))
	}
	return n
}
