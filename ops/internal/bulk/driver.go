package bulk

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/storage"
)

const (
	lookEvery   = 10 * time.Second // that somebody looks, at most
	firstPause  = 200 * time.Millisecond
	longestWait = 30 * time.Second
	orphanedFor = 48 * time.Hour // a set without a document: longer than an ID may begin an act
)

// A Driver does acts. Its methods may be called concurrently.
type Driver struct {
	Channels *channel.Channels
	Logger   *slog.Logger  // defaults to none
	Name     string        // of this process; defaults to its host and ID
	TTL      time.Duration // after which another driver takes an act over whose driver has died; defaults to 12 s
	Page     int           // messages of one unit of work; defaults to 128, or to 16 where such a unit isn't atomic

	once   sync.Once
	wake   chan struct{}
	mu     sync.Mutex
	looked time.Time
	busy   map[string]bool // acts that this driver follows; true: somebody wants it to look at the act again
}

// A Follower is told how an act goes on. Its functions may be nil, and are called by several goroutines.
type Follower struct {
	Settled func(e poisoned.Entry, err error) // what has become of an entry: [storage.ErrNotFound] if somebody else was quicker
	Moved   func(a Act)                       // the document, as it is now

	// Stopped says who stops the act by the end of the context, and why: the act is paused then. If it is nil, another
	// driver goes on.
	Stopped func() (by, why string)
}

func (f Follower) settled(e poisoned.Entry, err error) {
	if f.Settled != nil {
		f.Settled(e, err)
	}
}

func (f Follower) moved(a Act) {
	if f.Moved != nil {
		f.Moved(a)
	}
}

// begin fills in what a driver needs.
func (x *Driver) begin() {
	x.once.Do(func() {
		if x.Logger == nil {
			x.Logger = slog.New(slog.DiscardHandler)
		}
		x.Name = cmp.Or(x.Name, storecall.ProcessName())
		x.TTL = cmp.Or(x.TTL, 12*time.Second)
		most := 16
		if x.Channels.Store().Atomic() {
			most = 128
		}
		x.Page = cmp.Or(x.Page, most)
		x.wake, x.busy = make(chan struct{}, 1), map[string]bool{}
	})
}

// Wake has [Driver.Run] look for acts that nobody does.
func (x *Driver) Wake() {
	x.begin()
	select {
	case x.wake <- struct{}{}:
	default: // it will look
	}
}

// Look is [Driver.Wake] for the moment at which a person looks, which may be often.
func (x *Driver) Look() {
	x.mu.Lock()
	soon := time.Since(x.looked) < lookEvery
	if !soon {
		x.looked = time.Now()
	}
	x.mu.Unlock()
	if !soon {
		x.Wake()
	}
}

// Run does all acts, until ctx ends. It looks for acts when it begins and when it is woken, and asks the store nothing
// else while no act goes on.
func (x *Driver) Run(ctx context.Context) {
	x.begin()
	var following sync.WaitGroup
	defer following.Wait()
	for failures := 0; ; {
		err := x.startAll(ctx, &following)
		if err != nil && ctx.Err() == nil {
			x.Logger.WarnContext(ctx, "can't look for bulk acts; trying again", slog.Any("error", err))
			_ = storecall.Sleep(ctx, storecall.Doubled(firstPause, longestWait, failures)) // ctx ends both
			failures++
			continue
		}
		failures = 0
		select {
		case <-x.wake:
		case <-ctx.Done():
			return
		}
	}
}

// startAll begins to follow the acts that go on.
func (x *Driver) startAll(ctx context.Context, following *sync.WaitGroup) error {
	for info, err := range x.Channels.Store().Blobs(container).List(ctx, chosen) {
		if err != nil {
			return err
		}
		id := info.Key[len(chosen):]
		x.mu.Lock()
		_, was := x.busy[id]
		x.busy[id] = was
		x.mu.Unlock()
		if was {
			continue
		}
		following.Go(func() {
			for again := true; again; again = x.leaveOff(id) {
				x.followOne(ctx, id, info.Modified)
			}
		})
	}
	return nil
}

// leaveOff ends that this driver follows an act, unless somebody has wanted it to look again meanwhile. For the driver
// may have read the act before somebody resumed it.
func (x *Driver) leaveOff(id string) (again bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy[id] {
		x.busy[id] = false
		return true
	}
	delete(x.busy, id)
	return false
}

// followOne follows an act whose set was written at a time.
func (x *Driver) followOne(ctx context.Context, id string, chosenAt time.Time) {
	_, err := x.follow(ctx, id, Follower{}, true)
	if errors.Is(err, storage.ErrNotFound) { // nobody has asked for it yet: its set is there since it was shown
		if err = nil; time.Since(chosenAt) > orphanedFor {
			err = dropSet(ctx, x.Channels.Store(), id)
		}
	}
	if err != nil && ctx.Err() == nil {
		x.Logger.ErrorContext(ctx, "a bulk act can't go on", slog.String("id", id), slog.Any("error", err))
	}
}

// Follow does an act, or waits while another driver does it, until the act has ended or is paused. It returns the act
// as it is then. An error leaves the act to other drivers.
func (x *Driver) Follow(ctx context.Context, id string, f Follower) (Act, error) {
	x.begin()
	return x.follow(ctx, id, f, false)
}

// follow is Follow. A patient one goes on while the store fails.
func (x *Driver) follow(ctx context.Context, id string, f Follower, patient bool) (Act, error) {
	d := &drive{driver: x, channels: x.Channels, follower: f, right: rand.Text()}
	var seen sighting
	for failures := 0; ; {
		err := d.next(ctx, id, &seen)
		doc := seen.Doc
		switch {
		case ctx.Err() != nil:
			return d.leave(ctx, seen)
		case err == nil && doc.Over():
			_ = dropSet(ctx, x.Channels.Store(), id) // otherwise the next one to look does
			return doc.Act, nil
		case err == nil && doc.idle():
			return doc.Act, nil
		case err == nil, errors.Is(err, errAgain), storage.LostRace(err):
			failures = 0
			continue
		case !patient, storecall.Permanent(err), errors.Is(err, storage.ErrNotFound):
			if !unsure(err) { // otherwise it would be one more long wait
				d.release(ctx)
			}
			return doc.Act, err
		}
		if failures == 0 {
			x.Logger.WarnContext(ctx, "can't go on with a bulk act; trying again", slog.String("id", id), slog.Any("error", err))
		}
		_ = storecall.Sleep(ctx, storecall.Doubled(firstPause, longestWait, failures)) // the end of ctx is seen above
		failures++
	}
}

// next reads the document, and does what there is to do: nothing, waiting for another driver, or the act.
func (d *drive) next(ctx context.Context, id string, seen *sighting) error {
	if err := read(ctx, d.channels.Store(), id, seen); err != nil {
		return err
	}
	doc := &seen.Doc
	if doc.idle() {
		return nil
	}
	if left := seen.TakenFor(doc.TTL); doc.Right != "" && doc.Right != d.right && left > 0 {
		d.follower.moved(doc.Act)
		return storecall.Sleep(ctx, min(left, d.driver.TTL/8))
	}
	if err := d.claim(ctx, *seen); err != nil {
		return err
	}
	return d.run(ctx)
}

// release gives the right back, if this driver has it.
func (d *drive) release(ctx context.Context) {
	if doc := d.doc; d.etag != "" && doc.Right == d.right {
		doc.Driver, doc.Right = "", ""
		_ = d.write(ctx, doc) // otherwise the right ends by itself
	}
}

// leave gives the act up at the end of ctx.
func (d *drive) leave(ctx context.Context, seen sighting) (Act, error) {
	why, a := context.Cause(ctx), seen.Doc.Act
	ctx = context.WithoutCancel(ctx)
	if d.etag != "" { // the act was this driver's
		if d.doc.idle() {
			return d.doc.Act, nil
		}
		d.release(ctx)
		a = d.doc.Act
	}
	if d.follower.Stopped == nil || a.ID == "" {
		return a, why
	}
	by, reason := d.follower.Stopped()
	a, err := Set(ctx, d.channels.Store(), a.ID, Paused, by, reason)
	return a, errors.Join(why, err)
}
