package lanes

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	noisyFrom  = 30 // messages of a tenant within a window or two that make it noisy,
	noisyShare = 10 // if they are more than one in so many of all messages

	window    = 5 * time.Second
	beatEvery = 15 * time.Second // while a tenant stays noisy
	quietFor  = time.Minute      // without a beat, a tenant is no longer noisy

	mostNoisy   = 64  // tenants in the document
	mostCounted = 128 // tenants that are counted at a time
)

// A crowd counts the messages of tenants, and knows which of them are noisy: by its own count, and by what documents of
// other processes say. A reader of a document watches whether a tenant's beat changes, by its own monotonic clock.
type crowd struct {
	windows [2]tally // the one that runs, and the one before
	began   time.Time
	known   map[key]*noise
}

// noise is a tenant that is noisy.
type noise struct {
	beat    uint64
	changed time.Time // when this process saw the beat change
	lane    int       // its slow lane
}

// A document names the noisy tenants of a queue.
type document struct {
	Noisy []documented `json:"noisy"`
}

type documented struct {
	Tenant string `json:"tenant"` // its key in hexadecimal digits
	Beat   uint64 `json:"beat"`   // changes while it is noisy

	Lane int `json:"lane,omitzero"` // its slow lane; older versions know the first one alone, and leave this out
}

func newCrowd() crowd { return crowd{known: map[key]*noise{}} }

// A tally counts keys. It has room for a bounded number, and finds each that is more than one in mostCounted of all
// (Misra and Gries 1982). It never counts a key too high.
type tally struct {
	counts map[key]int
	all    int
}

func (t *tally) add(k key) {
	t.all++
	if t.counts == nil {
		t.counts = map[key]int{}
	}
	if _, ok := t.counts[k]; ok || len(t.counts) < mostCounted {
		t.counts[k]++
		return
	}
	for x := range t.counts {
		if t.counts[x]--; t.counts[x] == 0 {
			delete(t.counts, x)
		}
	}
}

// count counts a message, and reports that its tenant has many.
func (c *crowd) count(k key, now time.Time) bool {
	switch since := now.Sub(c.began); {
	case since >= 2*window:
		c.windows, c.began = [2]tally{}, now
	case since >= window:
		c.windows, c.began = [2]tally{{}, c.windows[0]}, now
	}
	c.windows[0].add(k)
	n, all := 0, 0
	for _, w := range c.windows {
		n, all = n+w.counts[k], all+w.all
	}
	return n >= noisyFrom && n*noisyShare > all
}

// lane returns the slow lane of a tenant, if it is noisy.
func (c *crowd) lane(k key, now time.Time) (lane int, noisy bool) {
	if n := c.known[k]; n != nil && now.Sub(n.changed) < quietFor {
		return n.lane, true
	}
	return 0, false
}

// free returns the slow lane with the fewest noisy tenants but k.
func (c *crowd) free(k key, now time.Time) (lane int) {
	var tenants [slowLanes]int
	for x, n := range c.known {
		if x != k && now.Sub(n.changed) < quietFor {
			tenants[n.lane]++
		}
	}
	for i, n := range tenants {
		if n < tenants[lane] {
			lane = i
		}
	}
	return lane
}

// see notes what a document says. The first document makes nobody noisy: nobody knows since when its beats are the
// same.
func (c *crowd) see(d document, first bool, now time.Time) {
	changed := now
	if first {
		changed = now.Add(-quietFor)
	}
	for _, x := range d.Noisy[:min(len(d.Noisy), mostNoisy)] {
		n, err := strconv.ParseUint(x.Tenant, 16, 64)
		if err != nil {
			continue
		}
		if x.Lane < 0 || x.Lane >= slowLanes {
			x.Lane = 0
		}
		old := c.known[key(n)]
		if old == nil || old.beat != x.Beat {
			if old != nil && x.Lane == 0 {
				x.Lane = old.lane
			}
			c.known[key(n)] = &noise{x.Beat, changed, x.Lane}
		}
	}
	c.forget(now)
}

// forget removes tenants that are quiet, and the quietest if there are too many.
func (c *crowd) forget(now time.Time) {
	for k, n := range c.known {
		if now.Sub(n.changed) >= 2*quietFor { // writes have left it out for a while
			delete(c.known, k)
		}
	}
	for len(c.known) > 2*mostNoisy {
		var oldest key
		for k, n := range c.known {
			if o := c.known[oldest]; o == nil || n.changed.Before(o.changed) {
				oldest = k
			}
		}
		delete(c.known, oldest)
	}
}

// report notes that tenants are noisy. It returns whether the document must say so, and the tenants that begin to be
// noisy.
func (c *crowd) report(tenants []key, now time.Time) (write bool, began []key) {
	c.forget(now)
	for _, k := range tenants {
		n := c.known[k]
		if n != nil && now.Sub(n.changed) < beatEvery {
			continue
		}
		write = true
		beat := uint64(now.UnixNano()) // any other number than before; no clock is read from it
		if n != nil && n.beat == beat {
			beat++
		}
		if n == nil || now.Sub(n.changed) >= quietFor {
			began = append(began, k)
			n = &noise{lane: c.free(k, now)}
		}
		c.known[k] = &noise{beat, now, n.lane}
	}
	return write, began
}

// rearrange chooses the slow lanes of tenants again, because another process may have put another tenant there.
func (c *crowd) rearrange(tenants []key, now time.Time) {
	for _, k := range tenants {
		if n := c.known[k]; n != nil {
			n.lane = c.free(k, now)
		}
	}
}

// document returns the document that names all that are noisy.
func (c *crowd) document(now time.Time) document {
	var keys []key
	for k, n := range c.known {
		if now.Sub(n.changed) < quietFor {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return c.known[b].changed.Compare(c.known[a].changed) })
	d := document{Noisy: []documented{}}
	for _, k := range keys[:min(len(keys), mostNoisy)] {
		d.Noisy = append(d.Noisy, documented{fmt.Sprintf("%016x", uint64(k)), c.known[k].beat, c.known[k].lane})
	}
	return d
}
