package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	atOnce    = 16      // entries of a page that are removed together
	mostBytes = 4 << 20 // of the messages of a page
)

// errAgain ends a drive that another one shall go on with: from the document as it stands.
var errAgain = errors.New("read the document again")

// A drive does an act, as long as its right stands in the document.
type drive struct {
	driver   *Driver
	channels *channel.Channels
	follower Follower
	right    string // at random
	set      set

	doc   document     // as it was written last, with what was done since then
	etag  storage.ETag // of what was written last
	wrote time.Time    // when that write began

	settled struct { // what became of the page of a document; the counts are not stored yet
		at  Cursor
		doc document
	}
	singles int // so many messages go alone, because one of a page can't be sent
}

func (d *drive) from(queue string) *poison.Queue { return poison.At(d.channels, queue) }

// within bounds calls by which the driver acts: they end before another driver may take over. The end of ctx doesn't
// stop them, because what has begun shall be finished.
func (d *drive) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(context.WithoutCancel(ctx), agree.ProvedUntil(d.wrote, d.driver.TTL), storage.ErrUnavailable)
}

// write writes the document, and sends messages in the same unit of work.
func (d *drive) write(ctx context.Context, doc document, all ...poison.Back) error {
	if !time.Now().Before(agree.ProvedUntil(d.wrote, d.driver.TTL)) {
		return errAgain // the right may be another driver's by now
	}
	ctx, cancel := d.within(ctx)
	defer cancel()
	start := time.Now()
	doc.Driven = start.UTC().Round(0)
	body, err := encode(doc)
	if err != nil {
		return err
	}
	etag, err := poison.SendBack(ctx, d.channels, &storage.Write{Container: container, Key: acts + doc.ID, Body: body, If: storage.Condition{IfMatch: d.etag}}, all...)
	if err == nil {
		d.doc, d.etag, d.wrote = doc, etag, start
		d.follower.moved(doc.Act)
	}
	return err
}

// claim takes the act over.
func (d *drive) claim(ctx context.Context, seen sighting) error {
	doc := seen.Doc
	doc.Driver, doc.Right, doc.TTL = d.driver.Name, d.right, d.driver.TTL
	d.etag, d.wrote = seen.ETag, time.Now()
	return d.write(ctx, doc)
}

// run does the act until it has ended or is paused.
func (d *drive) run(ctx context.Context) error {
	if err := d.finish(ctx); err != nil {
		return err
	}
	if d.doc.State == Running {
		if err := d.walk(ctx); err != nil {
			return err
		}
		d.doc.State = Done
	}
	doc := d.doc
	doc.Rate = 0
	if doc.State == Paused {
		doc.Driver, doc.Right = "", ""
		return d.write(ctx, doc)
	}
	if err := d.write(ctx, doc); err != nil { // nobody changes the state or the counts from now on
		return err
	}
	return d.end(ctx, doc)
}

// end notes the end in the audit log, and then in the document. A second call changes nothing.
func (d *drive) end(ctx context.Context, doc document) error {
	doc.Driver, doc.Right = "", ""
	calls, cancel := d.within(ctx)
	defer cancel()
	var failed error
	if doc.Failed > 0 {
		failed = errors.New(doc.Result())
	}
	if err := audit.Of(d.channels.Store()).End(calls, audit.Entry{ID: doc.ID}, doc.Result(), failed); err != nil {
		return err
	}
	doc.Ended = time.Now().UTC().Round(0)
	return d.write(ctx, doc)
}

// A page is what is settled together.
type page struct {
	doc   document // with the counts and the cursor of before the page is settled
	items []entry
	bytes int
	out   []refused // what isn't in the page, and is counted
}

// A refused is an entry that can't be settled.
type refused struct {
	entry poisoned.Entry
	err   error
}

// tell tells of the entries that were left out of a page.
func (d *drive) tell(p *page) {
	for _, r := range p.out {
		d.follower.settled(r.entry, r.err)
	}
	p.out = nil
}

// An entry is an entry of a page, ready to be settled.
type entry struct {
	poisoned.Entry
	back poison.Back
}

func (p *page) backs(verb string) (all []poison.Back) {
	for _, e := range p.items {
		if verb == Retry {
			all = append(all, e.back)
		}
	}
	return all
}

// walk looks at all entries behind the cursor, page by page.
func (d *drive) walk(ctx context.Context) (err error) {
	if err := d.load(ctx); err != nil {
		return err
	}
	p := &page{doc: d.doc}
	defer func() {
		if err != nil { // what was made ready isn't sent
			poison.Drop(ctx, d.channels, p.backs(p.doc.Verb)...)
		}
	}()
	for _, queue := range d.doc.Queues {
		after := ""
		switch at := d.doc.Cursor; {
		case queue < at.Queue:
			continue
		case queue == at.Queue:
			after = at.Key
		}
		for m, err := range d.from(queue).ListAfter(ctx, after) {
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := d.look(ctx, p, m); err != nil {
				return err
			}
			if d.full(p) {
				if err := d.step(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	if len(p.items) > 0 {
		return d.step(ctx, p)
	}
	d.doc = p.doc
	d.tell(p)
	return nil
}

// load reads the set, once.
func (d *drive) load(ctx context.Context) (err error) {
	if d.set != nil {
		return nil
	}
	store := d.channels.Store()
	if d.set, err = readSet(ctx, store, d.doc.ID); !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	var now sighting
	switch err := read(ctx, store, d.doc.ID, &now); {
	case err != nil:
		return err
	case now.ETag != d.etag: // another driver has ended the act
		return errAgain
	}
	return fmt.Errorf("%w: what was chosen for bulk act %s is gone from the store: cancel the act, and ask again", storage.ErrInvalid, d.doc.ID)
}

// look adds an entry to a page if it was chosen. An entry that can't be sent is counted, and keeps nothing else back.
func (d *drive) look(ctx context.Context, p *page, m poison.Entry) error {
	p.doc.Cursor = Cursor{m.Queue, m.Key}
	if !d.set[digest(m.Queue, m.Key, m.ETag)] {
		return nil // it came later
	}
	p.doc.Looked++
	in := p.doc.Filter.selection()
	if !in.Fits(m) {
		return nil
	}
	e := entry{Entry: poisoned.Of(m)}
	if p.doc.Verb == Retry {
		var err error
		switch e.back, err = d.from(m.Queue).Back(ctx, m); {
		case errors.Is(err, storage.ErrNotFound):
			p.doc.Gone++
			p.out = append(p.out, refused{e.Entry, err})
			return nil
		case unsure(err), ctx.Err() != nil:
			return err
		case err != nil:
			p.doc.fail(m.Queue, e.Name(), err)
			p.out = append(p.out, refused{e.Entry, err})
			return nil
		}
	}
	p.items, p.bytes = append(p.items, e), p.bytes+len(m.Body)
	return nil
}

// full reports that a page shall be settled. A driver that finds nothing to do for long writes how far it has come.
func (d *drive) full(p *page) bool {
	return len(p.items) >= d.driver.Page || p.bytes > mostBytes || d.singles > 0 && len(p.items) > 0 || time.Since(d.wrote) > d.driver.TTL/3
}

// step settles a page: a unit of work writes the document with the page, and sends the messages. Then the entries are
// removed. The page begins again.
func (d *drive) step(ctx context.Context, p *page) error {
	next := p.doc
	next.Page = nil
	for _, e := range p.items {
		next.Page = append(next.Page, item{e.Queue, e.Key, e.ETag})
	}
	if since := time.Since(d.wrote); since > 0 {
		next.Rate = float64(len(p.items)) / since.Seconds()
	}
	all := p.backs(next.Verb)
	switch err := d.write(ctx, next, all...); {
	case err == nil:
	case !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge):
		p.items = nil // perhaps they were sent; after a lost race nothing is left of them
		return err
	case len(p.items) == 1: // this one can't be sent
		e := p.items[0]
		p.doc.fail(e.Queue, e.Name(), err)
		p.items, p.bytes, p.out = nil, 0, append(p.out, refused{e.Entry, err})
		d.singles--
		return nil
	default: // one of them can't be sent, or be named in the document; nothing was
		d.singles, p.items = len(p.items), nil
		return errAgain
	}
	d.singles = max(0, d.singles-1)
	d.tell(p)
	items := p.items
	p.items, p.bytes = nil, 0
	if err := d.settle(ctx, items); err != nil {
		return err
	}
	p.doc = d.doc
	return nil
}

// settle removes the entries of the page that was just written.
func (d *drive) settle(ctx context.Context, items []entry) error {
	calls, cancel := d.within(ctx)
	defer cancel()
	doc := d.doc
	doc.Page = nil
	var mu sync.Mutex
	err := each(items, func(e entry) error {
		err := d.remove(calls, e)
		mu.Lock()
		defer mu.Unlock()
		if unsure(err) {
			return err
		}
		doc.count(e.Queue, e.Name(), err)
		d.follower.settled(e.Entry, err)
		return nil
	})
	if err != nil {
		return err
	}
	d.settledAs(doc)
	return nil
}

// settledAs remembers what became of the page of the document.
func (d *drive) settledAs(doc document) {
	d.doc, d.settled.at, d.settled.doc = doc, doc.Cursor, doc
}

func (d *drive) remove(ctx context.Context, e entry) error {
	if d.doc.Verb == Retry {
		return e.back.Remove(ctx)
	}
	return d.from(e.Queue).DiscardIf(ctx, e.Key, e.ETag)
}

// count counts an entry that was settled, or could not be.
func (d *document) count(queue, name string, err error) {
	switch {
	case err == nil:
		d.Done++
	case errors.Is(err, storage.ErrNotFound):
		d.Gone++
	case errors.Is(err, poison.ErrBodyLeft):
		d.Done++
		d.fault(queue, name, err)
	default:
		d.fail(queue, name, err)
	}
}

// unsure reports that the store has failed, so nobody knows whether an entry was settled: the page stays. Any other
// error is about the entry.
func unsure(err error) bool {
	var fault *storage.Error
	return errors.As(err, &fault) && !storecall.Permanent(err) && !errors.Is(err, poison.ErrBodyLeft) &&
		!errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrPrecondition)
}

// finish settles the page that stands in the document: of a driver that has died, or of this one, if somebody has set
// the state meanwhile.
func (d *drive) finish(ctx context.Context) error {
	doc := d.doc
	if len(doc.Page) == 0 {
		return nil
	}
	if was := d.settled; was.at == doc.Cursor && was.doc.ID != "" {
		doc.Page, doc.Done, doc.Gone, doc.Failed, doc.Faults = nil, was.doc.Done, was.doc.Gone, was.doc.Failed, was.doc.Faults
		d.doc = doc
		return nil
	}
	calls, cancel := d.within(ctx)
	defer cancel()
	var mu sync.Mutex
	err := each(doc.Page, func(it item) error {
		err := d.takeUp(calls, it)
		mu.Lock()
		defer mu.Unlock()
		if !unsure(err) {
			doc.count(it.Queue, it.Key, err)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	doc.Page = nil
	d.settledAs(doc)
	return nil
}

// takeUp settles an entry that another driver has begun to settle. An entry that isn't there any more, or that was put
// again, was settled by that driver.
func (d *drive) takeUp(ctx context.Context, it item) error {
	from := d.from(it.Queue)
	if d.doc.Verb == Discard {
		err := from.DiscardIf(ctx, it.Key, it.ETag)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrPrecondition) {
			return nil
		}
		return err
	}
	m, err := from.Get(ctx, it.Key)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && m.ETag != it.ETag:
		return nil
	case err != nil:
		return err
	}
	if d.channels.Store().Atomic() { // it was sent together with the document
		return from.Sent(m).Remove(ctx)
	}
	b, err := from.Back(ctx, m)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if _, err := poison.SendBack(ctx, d.channels, nil, b); err != nil {
		return err
	}
	return b.Remove(ctx)
}

// each calls f for all items, some at a time, and returns the first error.
func each[T any](items []T, f func(T) error) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, x := range items {
		g.Go(func() error { return f(x) })
	}
	return g.Wait()
}
