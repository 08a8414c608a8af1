package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// format is the version of what the scripts write.
const format = "millrace 1"

// A Config tells of a store.
type Config struct {
	Prefix   string // all keys begin with "{Prefix}"
	Replicas int    // how many replicas must have a change before it is acknowledged
	Virtual  bool   // the store's time is time.Now of this process
	Existing bool   // a store that nobody has made is refused
	Logger   *slog.Logger
}

// An Engine runs scripts for one store. All methods may be called concurrently.
type Engine struct {
	cfg     Config
	conn    client.Conn
	prefix  string // with its braces
	mark    string
	process string
	scripts scripts
	ids     *ids
	clock   clock
	known   atomic.Int64 // the largest number of this process's changes that was told
	lost    atomic.Int64 // changes whose loss was told to this process
	waiting waiting
	refusal atomic.Pointer[error] // why units that need memory fail
}

// Bell returns an engine for a store that keeps nothing. It knows its keys and its process, and refuses calls.
func Bell(conn client.Conn, cfg Config) *Engine {
	e := &Engine{cfg: cfg, conn: conn, prefix: "{" + cfg.Prefix + "}", process: newProcess(), scripts: newScripts(), ids: newIDs()}
	e.clock.virtual = cfg.Virtual
	return e
}

var errBell = fmt.Errorf("%w: the store was opened with bell=yes, so it rings and keeps nothing", driver.ErrUnsupported)

// Open opens a store, or makes one.
func Open(ctx context.Context, conn client.Conn, cfg Config) (*Engine, error) {
	e := Bell(conn, cfg)
	script, make := e.scripts.open, "yes"
	if cfg.Existing {
		script, make = e.scripts.look, "no"
	}
	_, _, virtual := e.clock.args()
	var r client.Reply
	asked := time.Now()
	err := repeat(ctx, func() (err error) {
		r, err = conn.Eval(ctx, script, e.prefix, []string{e.NewID(), format, make, virtual}, 0)
		return err
	})
	if client.HasCode(err, client.CodeWrongType) {
		return nil, e.foreign()
	}
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	mark, got := r.List().At(0).Text(), r.List().At(1).Text()
	switch {
	case got == "":
		return nil, fmt.Errorf("%w: nobody has made a store with prefix %s there; the program whose store it is makes it at its first start", driver.ErrNotFound, driver.Quote(cfg.Prefix))
	case got == "foreign":
		return nil, e.foreign()
	case got == "rights":
		return nil, fmt.Errorf("%w: the user lacks the right to %s with keys and channels that begin with %s; docs/redis.md has the rights that a store needs",
			driver.ErrUnavailable, r.List().At(2).Text(), driver.Quote(e.prefix))
	case got != format:
		return nil, fmt.Errorf("%w: the store with prefix %s has format %s, and this program knows %s; use the program that made it, or a newer one",
			driver.ErrInvalid, driver.Quote(cfg.Prefix), driver.Quote(got), driver.Quote(format))
	}
	e.mark = mark
	e.clock.told(r.List().At(2).Int(), asked)
	return e, nil
}

func (e *Engine) foreign() error {
	return fmt.Errorf("%w: the key %s is another program's; choose another prefix", driver.ErrInvalid, driver.Quote(e.prefix))
}

// Mark returns what tells the store from any other, whatever its prefix and the address of its server.
func (e *Engine) Mark() string { return hex.EncodeToString([]byte(e.mark)[:min(8, len(e.mark))]) }

// Process returns the name by which the store knows this process.
func (e *Engine) Process() string { return e.process }

// Key returns the name of a key or channel.
func (e *Engine) Key(name string) string { return e.prefix + name }

// Lost returns how many acknowledged changes this process knows to be gone.
func (e *Engine) Lost() int64 { return e.lost.Load() }

// A Question is a script that does one thing.
type Question int

// The scripts in lua/ say what they take and what they bring.
const (
	Claim Question = iota
	Find
	Peek
	Stats
	List
	Rows
	silent
	release
	forget

	Push  // of a simple list, as all below
	Unpop // Push of what was popped in vain
	Take
	Done
	Recover
	Length
)

func (e *Engine) script(q Question) *client.Script {
	s := &e.scripts
	return [...]*client.Script{s.claim, s.find, s.peek, s.stats, s.list, s.rows, s.silent, s.release, s.forget, s.push, s.unpop, s.take, s.done, s.recover, s.length}[q]
}

// Ask runs a script, and returns its reply. The first three replies in it were about the store.
func (e *Engine) Ask(ctx context.Context, q Question, args ...string) (client.List, error) {
	if why := e.refusal.Load(); why != nil && q == Push {
		return nil, *why
	}
	replicas := 0
	if q == Claim || q >= Push && q < Length {
		replicas = e.cfg.Replicas
	}
	return e.eval(ctx, e.script(q), args, replicas)
}

// Read runs a command that changes nothing.
func (e *Engine) Read(ctx context.Context, command ...string) (client.Reply, error) {
	var r client.Reply
	err := e.repeat(ctx, func() (err error) {
		r, err = e.conn.Do(ctx, command...)
		return err
	})
	return r, e.explain(ctx, err)
}

func (e *Engine) eval(ctx context.Context, s *client.Script, args []string, replicas int) (client.List, error) {
	var list client.List
	err := e.repeat(ctx, func() error {
		asked := time.Now()
		least, most, virtual := e.clock.args()
		call := append([]string{e.mark, least, most, e.process + strconv.FormatInt(e.known.Load(), 10), virtual}, args...)
		r, err := e.conn.Eval(ctx, s, e.prefix, call, replicas)
		if err != nil {
			return err
		}
		list = r.List()
		e.learn(list, asked)
		return nil
	})
	return list, e.explain(ctx, err)
}

// learn takes from a reply what it says about the store.
func (e *Engine) learn(reply client.List, asked time.Time) {
	e.clock.told(reply.At(0).Int(), asked)
	number := reply.At(1).Int()
	for {
		known := e.known.Load()
		if number <= known || e.known.CompareAndSwap(known, number) {
			break
		}
	}
	if lost := reply.At(2).Int(); lost > 0 {
		e.lost.Add(lost)
		e.cfg.Logger.Error("redis: acknowledged changes are lost: a failover, or a restart of the server, has taken them back",
			"prefix", e.cfg.Prefix, "changes", lost)
	}
}

const (
	// patience is how long a call is repeated that has not reached the server, or that the server refuses for a moment.
	patience = 3 * time.Second

	firstWait, longestWait = 5 * time.Millisecond, 200 * time.Millisecond
)

// repeat is the function repeat, for a store that keeps something.
func (e *Engine) repeat(ctx context.Context, call func() error) error {
	if e.mark == "" {
		return errBell
	}
	return repeat(ctx, call)
}

// repeat calls call until it succeeds, fails in earnest, or has been repeated for long.
func repeat(ctx context.Context, call func() error) error {
	wait, end := firstWait, time.Now().Add(patience)
	for {
		err := call()
		if err == nil || !passing(err) || !time.Now().Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

// passing reports that an error changed nothing and may be over soon.
func passing(err error) bool {
	return client.NotSent(err) || client.HasCode(err, client.CodeLoading) || client.HasCode(err, client.CodeReadOnly) || client.HasCode(err, client.CodeBusy)
}

// explain gives an error its kind, and says what to do.
func (e *Engine) explain(ctx context.Context, err error) error {
	var r *client.Refused
	switch {
	case err == nil, errors.Is(err, errBell), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	case !errors.As(err, &r):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	why := map[string]string{
		"GONE":                 "the store was wiped, or replaced by another one, since this program opened it; restart the program once that is as it should be",
		client.CodeMemory:      "the server's memory is full, so it takes no writes until messages are handled or maxmemory is raised",
		client.CodeWrongType:   "a key below prefix " + driver.Quote(e.cfg.Prefix) + " holds something of another program",
		client.CodePermission:  "the user lacks a right; docs/redis.md lists those that a store needs",
		client.CodeReadOnly:    "the server is a replica; a failover may be under way",
		client.CodeFewReplicas: "the outcome is unknown",
		client.CodeNoReplicas:  "the server has fewer replicas than its min-replicas-to-write asks for, so it takes no writes; look why replicas are away (INFO replication)",
		client.CodeMisconf:     "the server can't write its files, so it takes no writes; look into its log: the usual cause is a full disk",
	}[r.Code]
	if why == "" {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, why, err)
}
