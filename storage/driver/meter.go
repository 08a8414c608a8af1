package driver

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Requests counts requests of one sort.
type Requests struct {
	Request
	Count     int64
	Throttled int64 // how many of them the engine refused because there were too many
}

// A Request is a sort of request.
type Request struct {
	Op     string // "send", "receive", "put"; also what the driver does by itself, such as "create"
	Kind   string // "queue", "blob" or "table"
	Target string // the queue, container or table
	Class  string // how the engine bills it, such as "blob write"; empty where nothing is billed
}

// A Tally counts requests for a driver. The zero Tally is ready; it may be used concurrently.
type Tally struct {
	mu     sync.Mutex
	counts map[Request]*Requests
}

// Add counts one request.
func (t *Tally) Add(r Request, throttled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts[r]
	if c == nil {
		if t.counts == nil {
			t.counts = map[Request]*Requests{}
		}
		c = &Requests{Request: r}
		t.counts[r] = c
	}
	c.Count++
	if throttled {
		c.Throttled++
	}
}

// Requests lists the counts for [Store], in an order that stays the same.
func (t *Tally) Requests() []Requests {
	list := t.copied()
	slices.SortFunc(list, func(a, b Requests) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Target, b.Target), strings.Compare(a.Op, b.Op), strings.Compare(a.Class, b.Class))
	})
	return list
}

func (t *Tally) copied() []Requests {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Requests, 0, len(t.counts))
	for _, c := range t.counts {
		list = append(list, *c)
	}
	return list
}
