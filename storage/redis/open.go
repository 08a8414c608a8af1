package redis

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/internal/folder"
	"github.com/millrace-go/millrace/storage/internal/pubsub"
	"github.com/millrace-go/millrace/storage/internal/rings"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// The limits on content are those of the Azure driver where that driver's are narrower, so that a program that runs
// here runs there.
const (
	maxMessage = 48 << 10
	maxBlob    = 64 << 20
	maxRow     = 48 << 10

	// maxReceive bounds how long one claim keeps the server from other callers, to some 2 ms.
	maxReceive = 512

	// pollRings is for messages whose ring was lost while a connection was away. pollAlone is for stores without rings.
	pollRings = 5 * time.Second
	pollAlone = time.Second
)

// store is one open store.
type store struct {
	e         *engine.Engine
	conn      client.Conn
	cfg       params
	rings     *rings.Rings
	receivers *pubsub.Receivers
	files     *folder.Folder // nil without a parameter files
	ear       *ear           // nil with wake=off
	watch     *watch
	tally     tally
	lists     lists
	closeOne  sync.Once
}

// Driver opens the stores that URLs with "redis:", or one of its other forms, name; see [Open]. With Existing it
// refuses a store that nobody has made, and opens one on a server that was set badly, which takes no writes then.
var Driver = storage.Driver{
	Scheme: "redis",
	Forms:  []string{"rediss", "redis+unix", "redis+sentinel", "rediss+sentinel"},
	Usage: "redis://HOST:PORT/?prefix=NAME is a store on a Redis server of 7.0 or newer; rediss: is the same over TLS.\n" +
		"docs/redis.md has the other forms. User and password may stand in " + userVariable + "\nand " + passwordVariable + " instead, or the password in the file that " + passwordFile + "\nnames.",
	Open: func(ctx context.Context, rest string, cfg storage.OpenConfig) (*storage.Store, error) {
		if strings.HasPrefix(rest, "redis") { // the whole URL
			return openURL(ctx, rest, cfg)
		}
		return openURL(ctx, "redis:"+rest, cfg)
	},
}

// Open opens the store that a URL names, such as "redis://localhost:6379/?prefix=app"; see the package comment. A store
// that isn't there is made. The store logs warnings about the server, and what ends a warning, to slog.Default.
func Open(ctx context.Context, url string) (*storage.Store, error) {
	return openURL(ctx, url, storage.OpenConfig{Logger: slog.Default()})
}

func openURL(ctx context.Context, url string, cfg storage.OpenConfig) (*storage.Store, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	p, err := parse(url)
	if err != nil {
		return nil, fail("redis store", err)
	}
	s, err := open(ctx, p, cfg)
	if err != nil {
		return nil, fail("redis store "+p.place(), err)
	}
	return storage.New(s), nil
}

func fail(resource string, err error) error {
	return &driver.Error{Op: "open", Resource: resource, Err: err}
}

func open(ctx context.Context, p params, cfg storage.OpenConfig) (*store, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	conn, err := client.Dial(ctx, p.server)
	if err != nil {
		return nil, explainDial(ctx, p, err)
	}
	s, err := newStore(ctx, conn, p, cfg)
	if err != nil {
		conn.Close() // the first error tells more
		return nil, err
	}
	return s, nil
}

func newStore(ctx context.Context, conn client.Conn, p params, cfg storage.OpenConfig) (*store, error) {
	w := &watch{conn: conn, p: p, log: cfg.Logger}
	unsafe, err := w.check(ctx)
	if !cfg.Existing { // a command on the store of other programs may look at it, and then take nothing
		err = cmp.Or(err, unsafe)
	}
	if err != nil {
		return nil, err
	}
	e, err := openEngine(ctx, conn, p, cfg)
	if err != nil {
		return nil, err
	}
	w.tell(unsafe, e.Refuse)
	s := &store{e: e, conn: conn, cfg: p, rings: rings.New(), receivers: &pubsub.Receivers{Logger: cfg.Logger}, watch: w}
	if p.files != "" {
		s.files = folder.New(p.files, "")
	}
	if p.wake {
		s.ear = newEar(s, cfg.Logger)
		if err := s.ear.begin(ctx, w.lately); err != nil {
			s.ear.close()
			return nil, err
		}
	}
	if p.wake && !p.bell {
		w.begin(e.Refuse)
		s.ear.over.Go(func() { (&releaser{s: s, log: cfg.Logger}).run(s.ear.ctx) })
	}
	return s, nil
}

// openEngine opens what the server keeps, or for a bell, which keeps nothing, an engine that refuses all calls.
func openEngine(ctx context.Context, conn client.Conn, p params, cfg storage.OpenConfig) (*engine.Engine, error) {
	c := engine.Config{Prefix: p.prefix, Replicas: p.wait, Virtual: !p.wake, Existing: cfg.Existing, Logger: cfg.Logger}
	if p.bell {
		return engine.Bell(conn, c), nil
	}
	return engine.Open(ctx, conn, c)
}

// Queue, Blobs, Table, Committer, Listener, Finder, Lister, Peeker and Inspector implement driver.Store.
func (s *store) Queue(name string) driver.Queue      { return &queue{s: s, name: name} }
func (s *store) Blobs(container string) driver.Blobs { return &blobs{s: s, name: container} }
func (s *store) Table(name string) driver.Table      { return &table{s: s, name: name} }
func (s *store) Committer() driver.Committer         { return s }
func (s *store) Listener() driver.Listener           { return listener{s} }
func (s *store) Finder() driver.Finder               { return s }
func (s *store) Lister() driver.Lister               { return s }
func (s *store) Peeker() driver.Peeker               { return s }
func (s *store) Inspector() driver.Inspector         { return inspector{s} }
func (s *store) PublicFiles() driver.PublicFiles     { return nil }

// Files implements driver.Store. It is nil for a store whose URL names no folder.
func (s *store) Files() driver.Files {
	if s.files == nil {
		return nil
	}
	return s.files
}

// Requests implements driver.Store. Each call is a request, and costs nothing.
func (s *store) Requests() []driver.Requests { return s.tally.Requests() }

// tally counts what is asked of the server.
type tally struct{ driver.Tally }

func (t *tally) count(op, kind, target string) {
	t.Add(driver.Request{Op: op, Kind: kind, Target: target}, false)
}

// clock implements driver.Clock.
type clock struct{ s *store }

func (c clock) Now() time.Time { return engine.Time(c.s.e.Now()) }

// Props implements driver.Store.
func (s *store) Props() driver.Props {
	poll := pollRings
	if !s.cfg.wake {
		poll = pollAlone
	}
	return driver.Props{
		Driver:       "redis",
		Place:        "redis " + s.cfg.prefix + " " + s.e.Mark(),
		MaxMessage:   maxMessage,
		MaxBlob:      maxBlob,
		MaxRow:       maxRow,
		MaxReceive:   maxReceive,
		PollInterval: poll,
		Clock:        clock{s},
	}
}

// Close waits for the units of work under way, and ends the connections. Other calls under way fail.
func (s *store) Close() error {
	s.closeOne.Do(func() {
		if s.files != nil {
			s.files.Close()
		}
		s.rings.Close()
		s.receivers.Close()
		if s.ear != nil {
			s.ear.close()
		}
		if s.ear != nil && !s.cfg.bell {
			s.watch.end()
		}
		s.e.Close()
	})
	return nil
}
