package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	// Past is the time that a History goes back: rows are kept for as long.
	Past = keep

	// Slot is the time of one of its slots.
	Slot = 10 * time.Minute

	mostPast   = 20_000           // rows that a first reading reads
	againAfter = 10 * time.Second // as often as rates are read, so that the two agree
	overlap    = 2 * time.Minute  // rows that may have come late are read again
)

// A Span is what all workers have done in a slot of the past, by queue.
type Span struct {
	Begin  time.Time
	Queues map[string]Work
}

// Work is what workers have done with the messages of a queue, or of all queues.
type Work struct {
	Out, Retried, Poisoned float64 // messages
	P99                    float64 // running time of handlers in milliseconds, of the slowest report; 0 where none ran
}

// A History keeps what the workers of a store have published in the last 24 hours. It reads each row once, and those
// of the last minutes again. The zero History has read nothing. Its methods may be called concurrently.
type History struct {
	mu    sync.Mutex
	read  time.Time // when it was read last
	since time.Time // how far back it goes
	until time.Time // when the newest report was published
	slots map[time.Time]map[string]Work
	seen  map[string]time.Time // the rows of the last minutes, by key
}

// Until is when the newest report was published that Read has read; zero for none.
func (h *History) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// Read returns the slots of the past in the order of time, and from when on they are complete. It asks the store once
// in ten seconds at most, or each time while it knows no report. A store with very many reports has them of a shorter
// time.
func (h *History) Read(ctx context.Context, s *storage.Store) (spans []Span, since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now().UTC()
	if now.Sub(h.read) >= againAfter || len(h.slots) == 0 {
		if err := h.readOn(ctx, s, now); err != nil {
			return nil, time.Time{}, err
		}
	}
	for _, begin := range slices.SortedFunc(maps.Keys(h.slots), time.Time.Compare) {
		spans = append(spans, Span{begin, maps.Clone(h.slots[begin])})
	}
	return spans, h.since, nil
}

// readOn reads the rows that are new. A reading that fails changes nothing, so the next one reads them.
func (h *History) readOn(ctx context.Context, s *storage.Store, now time.Time) error {
	oldest := now.Add(-Past).Truncate(Slot).Add(Slot)
	from, since := oldest, oldest
	if !h.read.IsZero() && now.Sub(h.read) < Past {
		from, since = h.read.Add(-overlap), h.since
	}
	left, seen := mostPast, map[string]time.Time{}
	var all []Report
	for hour := now.Add(tolerance).Truncate(time.Hour); hour.Add(time.Hour).After(from); hour = hour.Add(-time.Hour) {
		r := storage.RowRange{From: latest(from, hour).Format(layout), To: hour.Add(time.Hour).Format(layout), Limit: left}
		for row, err := range s.Table(table).Query(ctx, partition(hour), r) {
			if err != nil {
				return fmt.Errorf("catalog: read: %w", err)
			}
			left--
			if p, err := decodeReport(row); err == nil {
				if p.Time.After(now.Add(-overlap - tolerance)) {
					seen[row.Key] = p.Time
				}
				if _, again := h.seen[row.Key]; !again {
					all = append(all, p)
				}
			}
		}
		if left <= 0 { // the newest rows of the hour are missing
			since = hour.Add(time.Hour)
			break
		}
	}
	if h.slots == nil || from == oldest {
		h.slots = map[time.Time]map[string]Work{}
	}
	for _, p := range withoutCovered(all) {
		h.add(&p)
	}
	h.read, h.since, h.seen = now, latest(since, oldest), seen
	maps.DeleteFunc(h.slots, func(begin time.Time, _ map[string]Work) bool { return begin.Before(h.since) })
	return nil
}

// add spreads the counts of a report over the time that it counts.
func (h *History) add(p *Report) {
	end := p.Time
	h.until = latest(h.until, end)
	begin := end.Add(-time.Duration(min(p.Seconds, Past.Seconds()) * float64(time.Second)))
	for slot := begin.Truncate(Slot); !slot.After(end); slot = slot.Add(Slot) {
		share := 1.0
		if whole := end.Sub(begin); whole > 0 {
			share = earliest(end, slot.Add(Slot)).Sub(latest(begin, slot)).Seconds() / whole.Seconds()
		}
		queues := h.slots[slot]
		if queues == nil {
			queues = map[string]Work{}
			h.slots[slot] = queues
		}
		for name, q := range p.Queues {
			w := queues[name]
			w.Out += share * float64(q.Out())
			w.Retried += share * float64(q.Retried)
			w.Poisoned += share * float64(q.Poisoned)
			w.P99 = max(w.P99, q.P99)
			queues[name] = w
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
