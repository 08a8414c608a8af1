package settings

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const soon = time.Second // between two looks while a change is being checked

// A follower keeps a node up to date with the store, and brings changes forward. It belongs to one goroutine.
type follower struct {
	book    book
	cfg     *Config
	node    *node
	trouble *agree.Trouble
	seen    sighting
	watch   watch
	driver  driver
}

func newFollower(b book, cfg *Config, c code) *follower {
	n := &node{book: b, id: rand.Text(), cfg: cfg, code: c, trouble: agree.NewTrouble(cfg.Logger), restart: make(chan struct{}), stable: none}
	n.checkup.cfg = cfg
	return &follower{book: b, cfg: cfg, node: n, trouble: n.trouble, watch: newWatch(b), driver: driver{id: n.id, poll: cfg.Poll}}
}

// look brings the node up to date, writes its row, settles a candidate whose answers are complete, and brings a
// roll-out forward. It returns when to look again.
func (f *follower) look(ctx context.Context) time.Duration {
	pause := storecall.Early(f.cfg.Poll)
	for ctx.Err() == nil {
		err := f.book.read(ctx, &f.seen)
		f.trouble.Note(ctx, "read the settings", err)
		if err != nil && !errors.Is(err, storage.ErrInvalid) {
			return pause // without a row: a live row promises an answer
		}
		if err != nil {
			f.seen = sighting{}
		}
		if f.seen.doc.Epoch >= f.node.epoch {
			f.watch.bury(ctx, f.seen.doc)
		}
		f.driver.clock.see(f.seen.doc.Epoch, time.Now())
		heeded := f.node.heed(ctx, f.seen, err)
		f.node.publish(true)
		if ctx.Err() != nil {
			return pause
		}
		told, beaten := f.node.voter.told, f.node.beaten
		f.node.beat(ctx)
		late := f.node.beaten.Sub(beaten) > 2*f.cfg.Poll
		if !f.node.joined && f.node.beaten != beaten && f.node.join(ctx, &f.seen) {
			continue // with what is in the document now
		}
		all, err := f.watch.look(ctx)
		f.trouble.Note(ctx, "read the rows of the nodes", err)
		switch c := f.seen.doc.Candidate; {
		case c == nil:
			return pause
		case c.Roll != nil:
			if err != nil || ctx.Err() != nil || !heeded || !f.drive(ctx, all) && told == f.node.voter.told && !late {
				return storecall.Early(c.pace(f.cfg.Poll))
			}
		case err != nil || ctx.Err() != nil || !f.settle(ctx, all.live()):
			return soon
		}
	}
	return pause
}

// settle ends the check of a candidate if the answers are complete. changed reports that there is something to heed
// now.
func (f *follower) settle(ctx context.Context, live []Node) (changed bool) {
	next, settled := tally(f.seen.doc, live, false, time.Now())
	if !settled || len(live) == 0 {
		return false
	}
	err := f.book.write(ctx, &f.seen, next)
	if storage.LostRace(err) {
		return true // somebody else has settled it
	}
	f.trouble.Note(ctx, "settle a change", err)
	if err == nil {
		f.book.tell(ctx)
	}
	return err == nil
}

// drive brings a roll-out forward by one step. changed reports that there is something else to heed now.
func (f *follower) drive(ctx context.Context, all rows) (changed bool) {
	before := f.seen.doc.Candidate
	m := f.driver.move(f.seen.doc, all, time.Now())
	if !m.write {
		f.driver.clock.skip(m.counted)
		return false
	}
	err := f.book.write(ctx, &f.seen, m.next)
	if storage.LostRace(err) {
		return true // somebody else was first
	}
	f.trouble.Note(ctx, "bring a roll-out forward", err)
	if err != nil {
		return false
	}
	f.driver.clock.wrote(f.seen.doc.Epoch, time.Now(), m.counted)
	if !moved(before, f.seen.doc.Candidate) {
		return false
	}
	f.book.tell(ctx)
	return true
}

// looks let others wait for the next look.
type looks struct {
	mu   sync.Mutex
	next chan struct{}
}

// coming returns a channel that is closed after the next look, or after the look that goes on.
func (l *looks) coming() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// over lets those go on that wait for a look.
func (l *looks) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.next)
	l.next = make(chan struct{})
}
