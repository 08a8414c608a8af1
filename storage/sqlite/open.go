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

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/folder"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/internal/rings"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
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

	// pollWake is for messages that no ring announces. There should be none: a store that sees no other process checks
	// the file itself every 30 seconds, for all queues. pollAlone is for stores that get no signals of other processes.
	// A look costs some 10 µs beside other work, and half a millisecond of CPU when a process wakes up for it.
	pollWake  = 5 * time.Minute
	pollAlone = time.Second
)

// store is one open file.
type store struct {
	path      string
	place     string
	alone     bool // wake=off: it knows of no other process
	db        *engine.DB
	tx        *tx // the writer's goroutine alone uses it
	names     *names
	rings     *rings.Rings
	receivers *pubsub.Receivers
	files     *folder.Folder
	awaits    awaits
	log       *slog.Logger
	peers     *peers.Peers
	version   int64 // of the file, when hasChanged was last called; hasChanged alone uses it
	clock     clock
	tally     driver.Tally

	closeOne sync.Once
	closeErr error
}

// Driver opens the files that URLs with "sqlite:" name; see [Open]. With Existing it refuses a file that is missing or
// empty, and a file whose schema is older than its own: brought up, the programs whose store it is could not open the
// file any more.
var Driver = storage.Driver{Scheme: "sqlite", Usage: "sqlite:PATH is a file.", Open: openConfigured}

func openConfigured(ctx context.Context, url string, cfg storage.OpenConfig) (*storage.Store, error) {
	if !cfg.Existing {
		return openURL(ctx, url, cfg.Logger, storeSchema)
	}
	if err := isMade(url); err != nil {
		return nil, fail("open", "sqlite store", err)
	}
	return openURL(ctx, url, cfg.Logger, kept(storeSchema))
}

// isMade reports why nobody can have made the store that a URL names. Whatever else is wrong shows at the opening.
func isMade(url string) error {
	path, err := File(url)
	if err != nil {
		return nil
	}
	full, err := filepath.Abs(path)
	if err != nil {
		full = path
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("file %s does not exist; the program whose store it is creates it at its first start", storage.Quote(full))
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return fmt.Errorf("file %s is empty; the program whose store it is creates the store in it at its first start", storage.Quote(full))
	}
	return nil
}

// Open opens the file that a store URL names, such as "sqlite:data/app.db"; see the package comment. "sqlite:" may be
// left out. A file whose name begins with "sqlite:" is opened as "./sqlite:...". A missing file is made, for this user
// only, and so are missing folders. A file that isn't this package's is refused; nothing in it is changed and nothing
// is left beside it. The store logs warnings about the file and the folder beside it, and what ends a warning, to
// slog.Default.
func Open(ctx context.Context, url string) (*storage.Store, error) {
	return openURL(ctx, url, slog.Default(), storeSchema)
}

// OpenSpool is [Open] for the files of package spool, which log to log. It refuses the file of a store, as Open refuses
// the file of a spool. With existing it refuses a file of an older schema, as [Driver] does.
func OpenSpool(ctx context.Context, url string, log *slog.Logger, existing bool) (*storage.Store, error) {
	schema := spoolSchema
	if existing {
		schema = kept(schema)
	}
	return openURL(ctx, url, log, schema)
}

func kept(schema engine.Schema) engine.Schema {
	schema.Keep = true
	return schema
}

func openURL(ctx context.Context, url string, log *slog.Logger, schema engine.Schema) (*storage.Store, error) {
	p, err := parse(url)
	if err != nil {
		return nil, fail("open", "sqlite store", err)
	}
	p.log = log
	s, err := open(ctx, p, schema)
	if err != nil {
		return nil, fail("open", "sqlite store "+p.path, err)
	}
	return storage.New(s), nil
}

func open(ctx context.Context, p params, schema engine.Schema) (*store, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	db, err := engine.Open(ctx, p.path, schema)
	if err != nil {
		return nil, err
	}
	s, err := newStore(ctx, db, p)
	if err != nil {
		db.Close() // the first error tells more
		return nil, err
	}
	return s, nil
}

// newStore makes a store of an open file.
func newStore(ctx context.Context, db *engine.DB, p params) (s *store, err error) {
	c := db.Conn()
	s = &store{
		path:      p.path,
		place:     "sqlite " + c.FilePath(), // one name, whatever links lead to the file
		alone:     !p.wake,
		log:       p.log,
		db:        db,
		names:     newNames(),
		rings:     rings.New(),
		receivers: &pubsub.Receivers{Logger: p.log},
		files:     folder.New(c.FilePath()+"-files", c.FilePath()),
		awaits:    awaits{queues: map[string][]*await{}},
		peers:     new(peers.Peers),
	}
	if s.version, err = dataVersion(c); err != nil {
		return nil, err
	}
	if s.clock, err = findClock(ctx, c, p.wake); err != nil {
		return nil, err
	}
	s.tx = newTx(s)
	if err := db.Start(s.tx, p.normal, p.log); err != nil {
		return nil, err
	}
	if p.wake {
		s.peers = s.newPeers(c.FilePath()) // one folder, whatever links lead to the file
	}
	return s, nil
}

// Queue, Blobs, Table, Committer, Listener, Finder, Lister, Peeker and Files implement driver.Store.
func (s *store) Queue(name string) driver.Queue      { return &queue{s: s, name: name} }
func (s *store) Blobs(container string) driver.Blobs { return &blobs{s: s, name: container} }
func (s *store) Table(name string) driver.Table      { return &table{s: s, name: name} }
func (s *store) Committer() driver.Committer         { return s }
func (s *store) Listener() driver.Listener           { return listener{s} }
func (s *store) Finder() driver.Finder               { return s }
func (s *store) Lister() driver.Lister               { return s }
func (s *store) Peeker() driver.Peeker               { return s }
func (s *store) Inspector() driver.Inspector         { return nil }
func (s *store) PublicFiles() driver.PublicFiles     { return nil }
func (s *store) Files() driver.Files                 { return s.files }

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
		Place:        s.place,
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
		s.files.Close()
		s.db.Stop()
		s.rings.Close()
		s.receivers.Close()
		s.peers.Close()
		if err := s.db.Close(); err != nil {
			s.closeErr = fail("close", "sqlite store "+s.path, err)
		}
	})
	return s.closeErr
}
