package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// The limits on content are those of the Azure driver where that driver's are narrower, so that a program that runs
// here runs there.
const (
	maxMessage = 48 << 10
	maxBlob    = 64 << 20
	maxRow     = 48 << 10

	// maxReceive bounds how long one claim keeps the writer busy, to some 2 ms.
	maxReceive = 512

	// pollWake is for messages that no ring announces, which are rare. pollAlone is for stores that get no signals of
	// other processes. A look costs some 10 µs beside other work, and half a millisecond of CPU when a process wakes up
	// for it.
	pollWake  = 30 * time.Second
	pollAlone = time.Second
)

// store is one open file.
type store struct {
	path    string
	alone   bool // wake=off: it knows of no other process
	place   *place
	writer  *writer
	ops     chan *op
	readers *readers
	names   *names
	wakes   *wakes
	awaits  awaits
	log     *slog.Logger
	peers   *peers.Peers
	version int64 // of the file, when hasChanged was last called; hasChanged alone uses it
	clock   clock
	tally   driver.Tally

	closing  chan struct{} // closed when Close begins
	stopped  chan struct{} // closed when the writer has ended
	closeOne sync.Once
	closeErr error
}

// Open opens the file that a store URL names, such as "sqlite:data/app.db"; see the package comment. It is a
// storage.Driver, so "sqlite:" may be left out. A file whose name begins with "sqlite:" is opened as "./sqlite:...".
// A missing file is made, for this user only, and so are missing folders. A file that isn't this package's is
// refused; nothing in it is changed and nothing is left beside it. The store logs to slog.Default.
func Open(ctx context.Context, url string) (*storage.Store, error) {
	return openURL(ctx, url, slog.Default())
}

// WithLogger returns [Open] for stores that log to log. They log warnings about the file and the folder beside it, and
// what ends a warning.
func WithLogger(log *slog.Logger) storage.Driver {
	return func(ctx context.Context, url string) (*storage.Store, error) { return openURL(ctx, url, log) }
}

func openURL(ctx context.Context, url string, log *slog.Logger) (*storage.Store, error) {
	p, err := parse(url)
	if err != nil {
		return nil, fail("open", "sqlite store", err)
	}
	p.log = log
	s, err := open(ctx, p)
	if err != nil {
		return nil, fail("open", "sqlite store "+p.path, err)
	}
	return storage.New(s), nil
}

func open(ctx context.Context, p params) (*store, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c, place, err := openFile(ctx, p.path)
	if err != nil {
		return nil, blame(p.path, err)
	}
	s := &store{
		path:    p.path,
		alone:   !p.wake,
		log:     p.log,
		place:   place,
		ops:     make(chan *op, maxGroup),
		readers: newReaders(place),
		names:   newNames(),
		wakes:   newWakes(),
		awaits:  awaits{queues: map[string][]*await{}},
		peers:   new(peers.Peers),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.version, err = c.dataVersion()
	if err != nil {
		c.close()
		return nil, err
	}
	if s.clock, err = findClock(ctx, c, p.wake); err != nil {
		c.close()
		return nil, err
	}
	s.writer, err = newWriter(s, c, p.normal)
	if err != nil {
		c.close()
		return nil, err
	}
	if p.wake {
		s.peers = s.newPeers(c.filePath()) // one folder, whatever links lead to the file
	}
	go s.writer.loop()
	return s, nil
}

// openFile makes the file and its folder where they are missing, and returns a connection to the newest schema.
func openFile(ctx context.Context, path string) (*conn, *place, error) {
	info, err := os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case isNew:
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, nil, fmt.Errorf("%w: can't make the folder: %w", driver.ErrUnavailable, err)
		}
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case info.IsDir():
		return nil, nil, fmt.Errorf("%w: it is a folder; want the path of a file in it", driver.ErrInvalid)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%w: it is not a regular file", driver.ErrInvalid)
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 && (isNew || info.Size() == 0) {
		return nil, nil, fmt.Errorf("%w: the file is not there or empty, but a log of one is, %s, and would be lost: put the file back beside it, or move the log away, and start again", driver.ErrUnavailable, driver.Quote(path+"-wal"))
	}
	c, err := openConn(path, openCreate)
	if err != nil {
		return nil, nil, err
	}
	place, err := newPlace(path)
	if err == nil && isNew {
		// By name, not by a descriptor: closing a descriptor would drop the locks that another store in this process holds
		// on the file. SQLite gives the files beside it the same mode.
		err = os.Chmod(path, 0o600)
	}
	// Before anything is read: a connection that can't write would leave behind the files that a read needs.
	if err == nil && c.readOnly() {
		err = &Error{Code: sqlite3.SQLITE_READONLY, Message: "the file is read-only"}
	}
	if err == nil {
		err = prepareFile(ctx, c)
	}
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return c, place, nil
}

// blame says why SQLite couldn't write when it is the folder's fault. SQLite itself tries to open for reading what it
// can't open for writing, and reports how that went.
func blame(path string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.primary() != sqlite3.SQLITE_CANTOPEN && e.primary() != sqlite3.SQLITE_READONLY {
		return err
	}
	f, probed := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-probe-*")
	if probed == nil {
		f.Close()
		os.Remove(f.Name())
		return err
	}
	if pe, ok := errors.AsType[*fs.PathError](probed); ok {
		probed = pe.Err // without the probe's name
	}
	return fmt.Errorf("%w: can't make files in the folder, as the database must: %w", driver.ErrUnavailable, probed)
}

// Queue, Blobs, Table, Committer and Listener implement driver.Store.
func (s *store) Queue(name string) driver.Queue      { return &queue{s: s, name: name} }
func (s *store) Blobs(container string) driver.Blobs { return &blobs{s: s, name: container} }
func (s *store) Table(name string) driver.Table      { return &table{s: s, name: name} }
func (s *store) Committer() driver.Committer         { return s }
func (s *store) Listener() driver.Listener           { return s }

// Requests implements driver.Store. Each call is a request, and costs nothing.
func (s *store) Requests() []driver.Requests { return s.tally.Requests() }

func (s *store) count(op, kind, target string) {
	s.tally.Add(driver.Request{Op: op, Kind: kind, Target: target}, false)
}

func (s *store) Props() driver.Props {
	poll := pollWake
	if s.alone {
		poll = pollAlone
	}
	return driver.Props{
		Driver:       "sqlite",
		MaxMessage:   maxMessage,
		MaxBlob:      maxBlob,
		MaxRow:       maxRow,
		MaxReceive:   maxReceive,
		PollInterval: poll,
	}
}

// Close lets the writer finish what it has taken, writes the log back into the file, and closes it.
func (s *store) Close() error {
	s.closeOne.Do(func() {
		close(s.closing)
		<-s.stopped
		s.readers.close()
		s.wakes.close()
		s.peers.Close()
		if err := s.writer.close(); err != nil {
			s.closeErr = fail("close", "sqlite store "+s.path, err)
		}
	})
	return s.closeErr
}
