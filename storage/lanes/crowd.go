package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	container = "lanes" // of the documents that name noisy tenants, by queue

	noisyFrom  = 30 // messages of a tenant within a window or two that make it noisy,
	noisyShare = 10 // if they are more than one in so many of all messages

	window    = 5 * time.Second
	readEvery = 5 * time.Second  // at most, the document
	beatEvery = 15 * time.Second // while a tenant stays noisy
	quietFor  = time.Minute      // without a beat, a tenant is no longer noisy
	callTime  = 2 * time.Second  // for a request about the document

	mostNoisy   = 64       // tenants in the document
	mostCounted = 128      // tenants that are counted at a time
	mostBytes   = 16 << 10 // of a document that is read
)

// A crowd counts the messages of tenants, and knows which of them are noisy.
//
// A document names the noisy ones. Its readers watch whether a tenant's beat changes, by their own monotonic clocks.
type crowd struct {
	blobs *storage.Blobs
	name  string

	mu      sync.Mutex
	windows [2]tally // the one that runs, and the one before
	began   time.Time
	known   map[key]*noise
	etag    storage.ETag
	read    time.Time // when the document was last asked for
	reading bool
	closed  bool
	end     func() // ends a reading that noisy has begun, and waits for that; nil: there was none
}

// noise is a tenant that is noisy.
type noise struct {
	beat    uint64
	changed time.Time // when this process saw the beat change
	lane    int       // its slow lane
}

func newCrowd(blobs *storage.Blobs, name string) *crowd {
	return &crowd{blobs: blobs, name: name, known: map[key]*noise{}}
}

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
	c.mu.Lock()
	defer c.mu.Unlock()
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

// noisy reports that a tenant is noisy, and its slow lane, as far as this process knows: it never waits for the
// document. If the last reading is old, it begins another one beside its caller. The first reading makes nobody noisy
// (see below), so nothing is missed without it. A message that should be in a slow lane, and isn't, is moved by a
// worker.
func (c *crowd) noisy(k key) (lane int, noisy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if etag, begun := c.begin(); begun {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		ended := make(chan struct{})
		c.end = func() {
			cancel()
			<-ended
		}
		go func() {
			defer close(ended)
			defer cancel()
			c.get(ctx, etag)
		}()
	}
	if n := c.known[k]; n != nil && time.Since(n.changed) < quietFor {
		return n.lane, true
	}
	return 0, false
}

// free returns the slow lane with the fewest noisy tenants but k. c.mu is held.
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

// begin notes that the document is read from now on, unless it was lately, or is, or the store is closed. c.mu is held.
func (c *crowd) begin() (etag storage.ETag, begun bool) {
	if c.reading || c.closed || !c.read.IsZero() && time.Since(c.read) < readEvery {
		return "", false
	}
	c.reading, c.read = true, time.Now()
	return c.etag, true
}

// get reads the document, after begin. Without an answer, what was known stays.
func (c *crowd) get(ctx context.Context, etag storage.ETag) {
	b, err := c.blobs.Get(ctx, c.name, etag)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if err == nil {
		c.see(b)
	}
}

// refresh reads the document, unless that was done lately.
func (c *crowd) refresh(ctx context.Context) {
	c.mu.Lock()
	etag, begun := c.begin()
	c.mu.Unlock()
	if begun {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		c.get(ctx, etag)
	}
}

// close ends a reading that noisy has begun. None begins after it.
func (c *crowd) close() {
	c.mu.Lock()
	c.closed = true
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// A document names the noisy tenants of a queue.
type document struct {
	Noisy []documented `json:"noisy"`
}

type documented struct {
	Tenant string `json:"tenant"` // its key in hexadecimal digits
	Beat   uint64 `json:"beat"`   // changes while it is noisy

	Lane int `json:"lane,omitzero"` // its slowLane; older versions know the first one alone, and leave this out
}

// see notes what a document says. c.mu is held.
func (c *crowd) see(b storage.Blob) {
	changed := time.Now()
	if c.etag == "" {
		changed = changed.Add(-quietFor) // the first reading: nobody knows since when the beats are the same
	}
	c.etag = b.ETag
	var d document
	if len(b.Body) > mostBytes || json.Unmarshal(b.Body, &d) != nil {
		return
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
	c.forget(time.Now())
}

// forget removes tenants that are quiet, and the quietest if there are too many. c.mu is held.
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

// report notes that tenants are noisy. It writes the document, unless that was done lately.
func (c *crowd) report(ctx context.Context, tenants []key) {
	c.refresh(ctx)
	c.mu.Lock()
	now := time.Now()
	c.forget(now)
	write := false
	var began []key // to be noisy
	for _, k := range tenants {
		n := c.known[k]
		if n == nil || now.Sub(n.changed) >= beatEvery {
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
	}
	c.mu.Unlock()
	if !write {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for range 3 { // a race that is lost again costs other processes a beat
		if err := c.write(ctx); !storage.LostRace(err) {
			return
		}
		b, err := c.blobs.Get(ctx, c.name, "")
		c.mu.Lock()
		switch {
		case errors.Is(err, storage.ErrNotFound):
			c.etag = ""
		case err == nil:
			c.see(b)
			for _, k := range began { // another process may have put another tenant there
				if n := c.known[k]; n != nil {
					n.lane = c.free(k, now)
				}
			}
		}
		c.mu.Unlock()
	}
}

// write writes the document, with all that are noisy.
func (c *crowd) write(ctx context.Context) error {
	c.mu.Lock()
	now := time.Now()
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
	cond := storage.Condition{IfMatch: c.etag, IfAbsent: c.etag == ""}
	c.mu.Unlock()
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	etag, err := c.blobs.Put(ctx, c.name, body, cond)
	if err == nil {
		c.mu.Lock()
		c.etag = etag
		c.mu.Unlock()
	}
	return err
}
