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

// modelHearing is one ear's hearing.
type modelHearing struct {
	m     *model
	topic string
	ear   driver.Receiver
	lost  chan struct{}
}

func (h *modelHearing) Lost() <-chan struct{} { return h.lost }

func (h *modelHearing) Close() {
	if h.m.has("hears after close") {
		return
	}
	h.m.earsMu.Lock()
	defer h.m.earsMu.Unlock()
	h.m.ears = slices.DeleteFunc(slices.Clone(h.m.ears), func(x *modelHearing) bool { return x == h })
}

func (m *model) Subscribe(ctx context.Context, topic string, ear driver.Receiver) (driver.Registration, error) {
	h := &modelHearing{m: m, topic: topic, ear: ear, lost: make(chan struct{})}
	add := func() {
		m.earsMu.Lock()
		defer m.earsMu.Unlock()
		m.ears = append(m.ears, h)
	}
	if m.has("hears late") {
		time.AfterFunc(50*time.Millisecond, add)
		return h, nil
	}
	err := m.do(ctx, "hear", func() error {
		add()
		return nil
	})
	return h, err
}

// deafen loses the hearings of a store that is closed.
func (m *model) deafen() {
	m.earsMu.Lock()
	defer m.earsMu.Unlock()
	m.ears = slices.DeleteFunc(slices.Clone(m.ears), func(h *modelHearing) bool {
		if h.m == m && !m.has("never lost") {
			close(h.lost)
		}
		return h.m == m
	})
}

func (m *model) Publish(ctx context.Context, topic string, data []byte, one bool) (heard int, err error) {
	var list []*modelHearing
	err = m.do(ctx, "tell", func() error {
		m.earsMu.Lock()
		defer m.earsMu.Unlock()
		for _, h := range m.ears {
			if (h.topic == topic || m.has("tells whatever the topic")) && (h.m == m || !m.has("tells its own store only")) {
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
				heard += n
			} else {
				heard++
			}
		}
		return heard, nil
	}
	weights := make([]int, len(list))
	for i, h := range list {
		weights[i] = m.call(h, data, 0)
		if m.has("tells one by turns") {
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
		if m.has("tells one twice") {
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
		if sum += w; w > 0 && m.has("tells the first one") {
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

// call calls an ear, which may panic.
func (m *model) call(h *modelHearing, data []byte, most int) (n int) {
	if !m.has("dies of an ear") {
		defer func() {
			if recover() != nil {
				n = 0
			}
		}()
	}
	if !m.has("ears share data") {
		data = slices.Clone(data)
	}
	if m.has("cuts what is told") {
		data = data[:min(len(data), 1000)]
	}
	n = h.ear(data, most)
	if n > most && most > 0 {
		panic(fmt.Sprint("an ear took ", n))
	}
	return n
}
