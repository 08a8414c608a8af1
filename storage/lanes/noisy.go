package lanes

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

const (
	container = "lanes" // of the documents that name noisy tenants, by queue

	readEvery = 5 * time.Second // at most, the document
	callTime  = 2 * time.Second // for a request about the document
	mostBytes = 16 << 10        // of a document that is read
)

// noisyTenants are the noisy tenants of a queue, which processes tell each other by a document.
type noisyTenants struct {
	blobs *storage.Blobs
	name  string

	mu      sync.Mutex
	crowd   crowd
	etag    storage.ETag
	read    time.Time // when the document was last asked for
	reading bool
	closed  bool
	end     func() // ends a reading that lane has begun, and waits for that; nil: there was none
}

func newNoisyTenants(blobs *storage.Blobs, name string) *noisyTenants {
	return &noisyTenants{blobs: blobs, name: name, crowd: newCrowd()}
}

// count counts a message, and reports that its tenant has many.
func (c *noisyTenants) count(k key, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crowd.count(k, now)
}

// lane returns the slow lane of a tenant, if it is noisy as far as this process knows: lane never waits for the
// document. If the last reading is old, it begins another one beside its caller. The first reading makes nobody noisy,
// so nothing is missed without it. A message that should be in a slow lane, and isn't, is moved by a worker.
func (c *noisyTenants) lane(k key) (lane int, noisy bool) {
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
	return c.crowd.lane(k, time.Now())
}

// begin notes that the document is read from now on, unless it was lately, or is, or the store is closed. c.mu is held.
func (c *noisyTenants) begin() (etag storage.ETag, begun bool) {
	if c.reading || c.closed || !c.read.IsZero() && time.Since(c.read) < readEvery {
		return "", false
	}
	c.reading, c.read = true, time.Now()
	return c.etag, true
}

// get reads the document, after begin. Without an answer, what was known stays.
func (c *noisyTenants) get(ctx context.Context, etag storage.ETag) {
	b, err := c.blobs.Get(ctx, c.name, etag)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if err == nil {
		c.see(b)
	}
}

// refresh reads the document, unless that was done lately.
func (c *noisyTenants) refresh(ctx context.Context) {
	c.mu.Lock()
	etag, begun := c.begin()
	c.mu.Unlock()
	if begun {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		c.get(ctx, etag)
	}
}

// close ends a reading that lane has begun. None begins after it.
func (c *noisyTenants) close() {
	c.mu.Lock()
	c.closed = true
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// see notes what a document says. c.mu is held.
func (c *noisyTenants) see(b storage.Blob) {
	first := c.etag == ""
	c.etag = b.ETag
	var d document
	if len(b.Body) > mostBytes || json.Unmarshal(b.Body, &d) != nil {
		return
	}
	c.crowd.see(d, first, time.Now())
}

// report notes that tenants are noisy. It writes the document, unless that was done lately.
func (c *noisyTenants) report(ctx context.Context, tenants []key) {
	c.refresh(ctx)
	c.mu.Lock()
	now := time.Now()
	write, began := c.crowd.report(tenants, now)
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
			c.crowd.rearrange(began, now)
		}
		c.mu.Unlock()
	}
}

// write writes the document, with all that are noisy.
func (c *noisyTenants) write(ctx context.Context) error {
	c.mu.Lock()
	d := c.crowd.document(time.Now())
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
