package peers

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"sync"

	"github.com/millrace-go/millrace/internal/flock"
)

// Config holds what the driver gives. All of it is required.
type Config struct {
	// Database is the path of the file, after all links have been followed.
	Database string

	// Logger gets one warning if the folder can't be used.
	Logger *slog.Logger

	// RingAll rings all consumers of this store. It doesn't wait.
	RingAll func()

	// HasChanged reports whether another process has written to the file since the last call, or since the file was
	// opened. It may report true when it can't tell. One goroutine calls it.
	HasChanged func() bool

	// Release makes receivable what was claimed under the generations first to last, and rings.
	Release func(ctx context.Context, first, last int64) error

	// Serve serves another store's connection and closes it. It returns when the connection or ctx ends.
	Serve func(ctx context.Context, conn net.Conn)

	// Lost is called when this store's socket is gone. It doesn't wait, and calls nothing of this package.
	Lost func()
}

// Peers is one store's view of the other stores on its file.
type Peers struct {
	cfg      Config
	folder   *folder // nil: it does nothing
	presence presence
	signals  *signals
	socket   socket

	ended chan struct{} // closed to end the goroutines
	all   sync.WaitGroup

	mu       sync.Mutex
	watching bool
	closed   bool
}

// New begins to give signals. It makes no file yet.
func New(cfg Config) *Peers {
	dir := newFolder(cfg.Database, cfg.Logger)
	dir.adoptExisting()
	p := &Peers{cfg: cfg, folder: dir, signals: newSignals(dir, rand.Text()), ended: make(chan struct{})}
	if flock.Works {
		p.presence.folder = dir
	}
	p.all.Go(func() { p.signals.run(p.ended) })
	return p
}

// Announce makes and locks the store's presence file, at the first call. It comes before others learn what the store
// has sent. Any goroutine may call it.
func (p *Peers) Announce() { p.presence.announce() }

// Signal has a signal given soon. It doesn't wait.
func (p *Peers) Signal() {
	if p.folder != nil {
		p.Announce()
		p.signals.request()
	}
}

// Watch begins to receive the signals of others, at the first call. So a store that only sends needs no watch of the
// operating system, which are few.
func (p *Peers) Watch() {
	if p.folder == nil {
		return
	}
	p.Announce() // before the watch, which needs no event of the store's own file
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching || p.closed {
		return
	}
	p.watching = true
	w := newWatcher(p)
	p.all.Go(w.run)
}

// ReleaseClaimsOfDead releases the claims of processes that died. It looks for them once a second at most; in between
// it costs nothing.
func (p *Peers) ReleaseClaimsOfDead(ctx context.Context) {
	p.release(ctx, p.presence.findDeadSometimes())
}

// Check makes this store's presence file again if it was removed, and releases the claims of processes that died. It
// reports whether other processes are there, or may be.
func (p *Peers) Check(ctx context.Context) (others bool) {
	p.presence.restore()
	p.release(ctx, p.presence.findDead())
	return p.presence.folder == nil || p.presence.others.Load()
}

func (p *Peers) release(ctx context.Context, dead []deadProcess) {
	for _, d := range dead {
		first, last := generations(d.number)
		err := p.cfg.Release(ctx, first, last)
		d.close(err == nil)
		if err != nil {
			p.presence.others.Store(true) // so that a later check tries again
		}
	}
}

// Close gives the signal that waits, if any, and removes the store's files. The folder stays, because another process
// may be watching it. It is called once. No goroutine calls the driver's functions any more after it.
func (p *Peers) Close() {
	if p.folder == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.ended)
	p.socket.close(p.folder)
	p.all.Wait()
	p.signals.finish()
	p.folder.remove(p.signals.file) // one that stays is removed as stale
	p.presence.close()
}
