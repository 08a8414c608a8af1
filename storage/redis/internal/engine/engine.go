package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
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
	caller  *caller
	units   *gatherer
	scripts scripts
	ids     *ids
}

// Bell returns an engine for a store that keeps nothing. It knows its keys and its process, and refuses calls.
func Bell(conn client.Conn, cfg Config) *Engine {
	e := &Engine{
		caller:  &caller{cfg: cfg, conn: conn, prefix: "{" + cfg.Prefix + "}", process: newProcess()},
		scripts: newScripts(),
		ids:     newIDs(),
	}
	e.caller.clock.virtual = cfg.Virtual
	e.units = &gatherer{caller: e.caller, grow: e.scripts.grow, free: e.scripts.free}
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
	_, _, virtual := e.caller.clock.args()
	var r client.Reply
	asked := time.Now()
	err := repeat(ctx, true, func() (err error) {
		r, err = conn.Eval(ctx, script, e.caller.prefix, func() []string { return []string{e.NewID(), format, make, virtual} }, 0)
		return err
	})
	if client.HasCode(err, client.CodeWrongType) {
		return nil, e.foreign()
	}
	if err != nil {
		return nil, e.caller.explain(ctx, err)
	}
	mark, got := r.List().At(0).Text(), r.List().At(1).Text()
	switch {
	case got == "":
		return nil, fmt.Errorf("%w: there is no store with prefix %s; either no program has made it yet, which the first start of its program does, or it was wiped", driver.ErrNotFound, driver.Quote(cfg.Prefix))
	case got == "foreign":
		return nil, e.foreign()
	case got == "rights":
		return nil, fmt.Errorf("%w: the user lacks the right to %s with keys and channels that begin with %s; docs/redis.md has the rights that a store needs",
			driver.ErrUnavailable, r.List().At(2).Text(), driver.Quote(e.caller.prefix))
	case got != format:
		return nil, fmt.Errorf("%w: the store with prefix %s has format %s, and this program knows %s; use the program that made it, or a newer one",
			driver.ErrInvalid, driver.Quote(cfg.Prefix), driver.Quote(got), driver.Quote(format))
	}
	e.caller.mark = mark
	e.caller.clock.told(r.List().At(2).Int(), asked)
	return e, nil
}

func (e *Engine) foreign() error {
	return fmt.Errorf("%w: the key %s is another program's; choose another prefix", driver.ErrInvalid, driver.Quote(e.caller.prefix))
}

// Mark returns what tells the store from any other, whatever its prefix and the address of its server.
func (e *Engine) Mark() string {
	return hex.EncodeToString([]byte(e.caller.mark)[:min(8, len(e.caller.mark))])
}

// Process returns the name by which the store knows this process.
func (e *Engine) Process() string { return e.caller.process }

// Key returns the name of a key or channel.
func (e *Engine) Key(name string) string { return e.caller.prefix + name }

// Lost returns how many acknowledged changes this process knows to be gone.
func (e *Engine) Lost() int64 { return e.caller.lost.Load() }

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
	if q == Push {
		if err := e.units.refusal(); err != nil {
			return nil, err
		}
	}
	replicas := 0
	if q == Claim || q >= Push && q < Length {
		replicas = e.caller.cfg.Replicas
	}
	s := e.script(q)
	return e.caller.eval(ctx, s, args, replicas, s.Reads())
}

// Read runs a command that changes nothing.
func (e *Engine) Read(ctx context.Context, command ...string) (client.Reply, error) {
	return e.caller.read(ctx, command...)
}

// Do does a unit. The unit is the callee's until Do returns, and for good when the error is that of ctx.
func (e *Engine) Do(ctx context.Context, u *Unit) error { return e.units.do(ctx, u) }

// Refuse makes units fail that need memory, until it is called with nil. Messages that are there can still be handled.
func (e *Engine) Refuse(why error) { e.units.refuse(why) }

// Closed is the error of calls after Close, or nil.
func (e *Engine) Closed() error { return e.units.ended() }

// Close waits for the units under way. Later units fail, and other calls fail at once.
func (e *Engine) Close() {
	if e.units.end() {
		e.caller.conn.Close()
	}
}
