package worker

import (
	"maps"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
)

// Counts are what a worker has done with the messages of a queue since it was made.
type Counts struct {
	Done       int64 // handled and deleted
	Retried    int64 // failed, and tried again
	Poisoned   int64 // in the poison queue
	Cancelled  int64 // deleted unhandled, because they were cancelled
	HandedBack int64 // handed back for no fault of their own, such as those that weren't due

	InHand int64 // messages that the worker holds now
	Times  Times // of handlers
	Kinds  map[channel.Kind]KindCounts
}

// KindCounts are what a worker has done with the messages of a kind that it has a handler for.
type KindCounts struct {
	Done   int64
	Failed int64 // attempts: those that were tried again, and the last one of a message that was poisoned
}

// Since returns what was counted after an earlier look. InHand is as it is now.
func (c Counts) Since(before Counts) Counts {
	c.Done -= before.Done
	c.Retried -= before.Retried
	c.Poisoned -= before.Poisoned
	c.Cancelled -= before.Cancelled
	c.HandedBack -= before.HandedBack
	c.Kinds = maps.Clone(c.Kinds)
	for kind, k := range c.Kinds {
		c.Kinds[kind] = KindCounts{Done: k.Done - before.Kinds[kind].Done, Failed: k.Failed - before.Kinds[kind].Failed}
	}
	for i := range c.Times.n {
		c.Times.n[i] -= before.Times.n[i]
	}
	return c
}

// Times count the runs of handlers, or of folds of one document, by how long they took.
type Times struct {
	n [timeSteps]int64 // by timeStep
}

const (
	stepsBits = 3                                 // eight steps for each doubling, so a time is at most an eighth too long
	timeSteps = (32 - stepsBits + 1) << stepsBits // up to 71 minutes; the last step takes what is longer
)

// timeStep returns the step of a time.
func timeStep(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < 1<<stepsBits {
		return int(us)
	}
	shift := bits.Len64(us) - 1 - stepsBits
	return min(shift<<stepsBits+int(us>>shift), timeSteps-1)
}

// timeOf returns the end of a step.
func timeOf(step int) time.Duration {
	if step < 1<<stepsBits {
		return time.Duration(step+1) * time.Microsecond
	}
	shift := step>>stepsBits - 1
	return time.Duration(step-shift<<stepsBits+1) << shift * time.Microsecond
}

// Quantile returns the time that a share p of the runs didn't exceed, or 0 without any run. It is at most an eighth
// too long.
func (t *Times) Quantile(p float64) time.Duration {
	var all, seen int64
	for _, n := range t.n {
		all += n
	}
	for step, n := range t.n {
		if seen += n; n > 0 && float64(seen) >= p*float64(all) {
			return timeOf(step)
		}
	}
	return 0
}

// counter counts for the metrics, and for Counts.
type counter struct {
	prometheus.Counter
	n atomic.Int64
}

func (c *counter) Inc() {
	c.n.Add(1)
	c.Counter.Inc()
}

// kindCounter counts for the Counts of a kind.
type kindCounter struct{ done, failed atomic.Int64 }

// times counts for Counts.Times.
type times [timeSteps]atomic.Int64

// kindOf returns the counter of a message's kind, or one that nobody reads where the kind has no handler.
func (q *queueMetrics) kindOf(m *message) *kindCounter {
	kind := m.envelope.Kind
	if m.delivery != nil {
		kind = m.delivery.Handler.Kind() // after all upgrades
	}
	if k := q.kinds[kind]; k != nil {
		return k
	}
	return &q.unknown
}

// counts returns what was counted so far.
func (q *queueMetrics) counts() Counts {
	c := Counts{
		Done: q.done.n.Load(), Retried: q.retried.n.Load(), Poisoned: q.poisoned.n.Load(), Cancelled: q.cancelled.n.Load(),
		HandedBack: q.handedBack.n.Load(), InHand: q.inHand.Load(), Kinds: make(map[channel.Kind]KindCounts, len(q.kinds)),
	}
	for kind, k := range q.kinds {
		c.Kinds[kind] = KindCounts{Done: k.done.Load(), Failed: k.failed.Load()}
	}
	for i := range q.times {
		c.Times.n[i] = q.times[i].Load()
	}
	return c
}
