package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// container holds the documents of all locks.
const container = "quorum"

// nobody is the ID in the document of a store that forgot.
const nobody = "nobody"

const (
	// maxFence is a fence that no honest writer reaches.
	maxFence = math.MaxInt64 / 2

	// maxAhead is how far a document's fence may be ahead of those that most stores have: more holders than one store
	// misses. A fence further ahead is foreign. A candidate that went on from it would write it to all stores, and soon
	// one that is larger than maxFence.
	maxAhead = 1 << 32
)

var (
	errForgot = errors.New("the store forgot the lock, or never knew it, so it stays out for a while")
	errLate   = errors.New("its answer came too late for this round")
	errClosed = fmt.Errorf("%w: it was not opened", storage.ErrUnavailable)
	errBusy   = fmt.Errorf("%w: a call is still under way", storage.ErrUnavailable)
	errAhead  = fmt.Errorf("%w: the blob of that name in container %s has a fence far ahead of the other stores'; delete it", storage.ErrInvalid, container)
	errTwice  = fmt.Errorf("%w: two of the stores are one place", storage.ErrInvalid)
)

// A document is what a store keeps of a lock, as JSON.
type document struct {
	Holder string `json:"holder"`
	ID     string `json:"id"` // empty: the grant is free
	Fence  int64  `json:"fence"`
	TTL    int64  `json:"ttl"` // milliseconds
	Beat   int64  `json:"beat"`

	absent int // of a sighting: how often in a row there was no document
}

// knows reports that the document's fence is not smaller than that of any holder that the store granted.
func (d document) knows() bool { return d.Fence > 0 }

// held is the error of a candidate that has to leave the document to its holder.
func (d document) held() error {
	if d.ID == nobody {
		return fmt.Errorf("%w perhaps: %w", ErrHeld, errForgot)
	}
	return fmt.Errorf("%w by %s", ErrHeld, storage.Quote(d.Holder))
}

// A grant is one store's part of a lock, as one acquisition sees it, and then its Lock. Everything below turn belongs
// to the goroutine that has the turn.
type grant struct {
	setting
	blobs *storage.Blobs // nil: the store was not opened
	key   string
	index int
	id    string        // of the acquisition, and the store's index
	turn  chan struct{} // full while no call is under way: a store that hangs gets no second call

	seen   agree.Sighting[document]
	memory agree.Memory[document]
	asked  bool      // the store has the grant's ID, or may come to have it
	fence  int64     // asked for last
	proved time.Time // when the last write with the ID that was answered with success began; zero if there is none
}

// lock waits for the turn.
func (g *grant) lock(ctx context.Context) error {
	select {
	case <-g.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *grant) unlock() { g.turn <- struct{}{} }

// wait is how long the document must be left to its holder. It is for ever where there is no document.
func (g *grant) wait() time.Duration {
	switch {
	case g.seen.ETag == "":
		return math.MaxInt64
	case g.seen.Doc.ID == "" || g.seen.Doc.ID == g.id:
		return 0
	}
	return g.seen.TakenFor(time.Duration(g.seen.Doc.TTL) * time.Millisecond)
}

func (g *grant) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return storecall.Limit(ctx, g.TTL/8)
}

// look reads the document. That there is none is no error.
func (g *grant) look(ctx context.Context) error {
	if g.blobs == nil {
		return g.fail(errClosed)
	}
	ctx, cancel := g.limit(ctx)
	defer cancel()
	blob, err := g.blobs.Get(ctx, g.key, g.seen.ETag)
	switch {
	case errors.Is(err, storage.ErrNotModified):
		return nil
	case errors.Is(err, storage.ErrNotFound):
		g.saw(agree.Sighting[document]{Doc: document{absent: g.seen.Doc.absent + 1}})
		g.asked = false
		return nil
	case err != nil:
		return g.fail(err)
	}
	d, err := parse(blob.Body)
	if err == nil && d.ID != g.id && strings.HasPrefix(d.ID, g.acquisition()) {
		err = errTwice
	}
	if err != nil {
		return g.fail(err)
	}
	g.saw(agree.Sighting[document]{Doc: d, ETag: blob.ETag, Since: time.Now()})
	g.asked = d.ID == g.id // writes under way name an older ETag
	return nil
}

// acquisition is the part of the ID that all grants of an acquisition share.
func (g *grant) acquisition() string { return g.id[:strings.LastIndexByte(g.id, '-')+1] }

func parse(body []byte) (d document, err error) {
	bad := json.Unmarshal(body, &d) != nil || d.Fence < 0 || d.Fence > maxFence || (d.Fence == 0) != (d.ID == nobody)
	if bad || d.ID != "" && (d.TTL < 1 || d.TTL > maxTTL.Milliseconds()) {
		return document{}, fmt.Errorf("%w: the blob of that name in container %s is not a grant", storage.ErrInvalid, container)
	}
	return d, nil
}

// take writes the grant's ID. After an error the outcome may be unknown.
func (g *grant) take(ctx context.Context, fence int64) error {
	g.asked, g.fence = true, fence
	start := time.Now()
	err := g.put(ctx, document{Holder: g.Holder, ID: g.id, Fence: max(g.seen.Doc.Fence, fence)})
	if err == nil {
		g.proved = start
	}
	return err
}

// give frees the grant if the store has its ID, or may come to have it: the write also puts an end to one that is
// still under way.
func (g *grant) give(ctx context.Context) error {
	g.proved = time.Time{}
	if g.asked && g.seen.ETag == "" {
		if err := g.look(ctx); err != nil {
			return err
		}
	}
	for g.asked {
		err := g.put(ctx, document{Fence: max(g.seen.Doc.Fence, g.fence)})
		if storage.LostRace(err) {
			err = g.look(ctx)
		} else if err == nil {
			g.asked = false
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mark writes the document of a store that forgot.
func (g *grant) mark(ctx context.Context) error { return g.put(ctx, document{ID: nobody}) }

// renew writes the grant's ID again for a lock that is held. A grant that the lock hasn't got is taken when it may be,
// and at once where the store forgot, if alive says that the lock is held after its document was read.
func (g *grant) renew(ctx context.Context, fence int64, alive func() bool) error {
	if g.seen.ETag == "" || g.seen.Doc.ID != g.id {
		if err := g.look(ctx); err != nil {
			return err
		}
	}
	for {
		if g.seen.ETag == "" {
			if err := g.mark(ctx); err != nil {
				return err
			}
		}
		if forgot := g.seen.Doc.ID == nobody; !forgot && g.wait() > 0 || forgot && !alive() {
			return g.seen.Doc.held()
		}
		if err := g.take(ctx, fence); !storage.LostRace(err) {
			return err
		}
		if err := g.look(ctx); err != nil {
			return err
		}
	}
}

// put writes a document over the one that is known.
func (g *grant) put(ctx context.Context, d document) error {
	if g.blobs == nil {
		return g.fail(errClosed)
	}
	ctx, cancel := g.limit(ctx)
	defer cancel()
	d.TTL, d.Beat = g.TTL.Milliseconds(), g.seen.Doc.Beat+1
	body, err := json.Marshal(d)
	if err != nil {
		return g.fail(err)
	}
	etag, err := g.blobs.Put(ctx, g.key, body, storage.Condition{IfMatch: g.seen.ETag, IfAbsent: g.seen.ETag == ""})
	if err != nil {
		return g.fail(err)
	}
	g.saw(agree.Sighting[document]{Doc: d, ETag: etag, Since: time.Now()})
	return nil
}

// saw notes what was read or written last.
func (g *grant) saw(s agree.Sighting[document]) {
	g.seen = s
	g.memory.Note(g.key, s)
}

// fail counts an error, except a lost race.
func (g *grant) fail(err error) error {
	if !storage.LostRace(err) {
		g.failures.WithLabelValues(fmt.Sprint(g.index)).Inc()
	}
	return err
}

// each calls f for each grant, in parallel, when it has the turn. It returns the errors by index when all are done or
// ctx ends, and doesn't wait for a store that ignores the end of ctx.
func each(ctx context.Context, grants []*grant, f func(g *grant) error) []error {
	type result struct {
		index int
		err   error
	}
	results := make(chan result, len(grants))
	for i, g := range grants {
		go func() {
			if err := g.lock(ctx); err != nil {
				return // f doesn't begin any more
			}
			defer g.unlock()
			results <- result{i, f(g)}
		}()
	}
	errs := make([]error, len(grants))
	for i := range errs {
		errs[i] = errBusy
	}
	for range grants {
		select {
		case r := <-results:
			errs[r.index] = r.err
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}
