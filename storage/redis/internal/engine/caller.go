package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// A caller makes the calls of one store. It repeats a call where a repeat does no harm, and says what a failure means.
type caller struct {
	cfg     Config
	conn    client.Conn
	prefix  string // with its braces
	mark    string // "" of a bell
	process string
	clock   clock
	known   atomic.Int64 // the largest number of this process's changes that was told
	lost    atomic.Int64 // changes whose loss was told to this process
}

// read runs a command that changes nothing. The store's mark is still there afterwards, so the answer was this store's.
func (c *caller) read(ctx context.Context, command ...string) (client.Reply, error) {
	var r client.Reply
	err := c.repeat(ctx, true, func() (err error) {
		var mark client.Reply
		mark, r, err = c.conn.Look(ctx, c.prefix, "mark", command...)
		if err == nil && mark.Text() != c.mark {
			err = &client.Refused{Code: codeGone, Text: "GONE the store was wiped or replaced"}
		}
		return err
	})
	return r, c.explain(ctx, err)
}

// eval runs a script. harmless says that a repeat does nothing that the first call has done.
func (c *caller) eval(ctx context.Context, s *client.Script, args []string, replicas int, harmless bool) (list client.List, err error) {
	var jump proof
	err = c.repeat(ctx, harmless, func() error {
		var asked time.Time
		r, err := c.conn.Eval(ctx, s, c.prefix, func() []string {
			asked = time.Now()
			least, most, virtual := c.clock.args()
			return append([]string{c.mark, least, most + jump.text(), c.process + strconv.FormatInt(c.known.Load(), 10), virtual}, args...)
		}, replicas)
		if client.HasCode(err, codeJump) {
			c.judge(&jump, err, asked)
		}
		if err != nil {
			return err
		}
		list = r.List()
		c.learn(list, asked)
		return nil
	})
	return list, c.explain(ctx, err)
}

// The refusals of the scripts themselves.
const (
	codeJump = "JUMP" // the time seems to have jumped
	codeGone = "GONE" // the store was wiped or replaced
)

// A proof is of a jump of the server's clock while the store's time was so far ahead of the clock.
type proof struct{ ahead, less int64 }

// text is what the next call says of a jump.
func (p proof) text() string {
	if p.less == 0 {
		return ""
	}
	return fmt.Sprintf("@%d@%d", p.ahead, p.less)
}

// judge adds to a proof what a refusal proves. The refused time is without what the proof has taken away before.
func (c *caller) judge(p *proof, err error, asked time.Time) {
	var (
		r         *client.Refused
		at, ahead int64
	)
	if !errors.As(err, &r) {
		return
	}
	if _, err := fmt.Sscanf(r.Text, codeJump+" %d %d", &at, &ahead); err != nil {
		return
	}
	if p.ahead != ahead {
		*p = proof{ahead: ahead}
	}
	p.less += c.clock.jumped(at, asked)
}

// learn takes from a reply what it says about the store.
func (c *caller) learn(reply client.List, asked time.Time) {
	c.clock.told(reply.At(0).Int(), asked)
	number := reply.At(1).Int()
	for {
		known := c.known.Load()
		if number <= known || c.known.CompareAndSwap(known, number) {
			break
		}
	}
	if lost := reply.At(2).Int(); lost > 0 {
		c.lost.Add(lost)
		c.cfg.Logger.Error("redis: acknowledged changes are lost: a failover, or a restart of the server, has taken them back",
			"store", c.cfg.Prefix, "changes", lost)
	}
}

const (
	// patience is how long a call is repeated that has not reached the server, or that the server refuses for a moment.
	patience = 3 * time.Second

	firstWait, longestWait = 5 * time.Millisecond, 200 * time.Millisecond

	// mostJumps is how often a call is repeated whose time a script has refused.
	mostJumps = 5
)

// repeat is the function repeat, for a store that keeps something.
func (c *caller) repeat(ctx context.Context, harmless bool, call func() error) error {
	if c.mark == "" {
		return errBell
	}
	return repeat(ctx, harmless, call)
}

// repeat calls call until it succeeds, fails in earnest, or has been repeated for long. A harmless call is repeated
// once after its connection was cut. A call that was on its way for long, whatever the patience, is judged some times.
func repeat(ctx context.Context, harmless bool, call func() error) error {
	wait, end, cut, jumps := firstWait, time.Now().Add(patience), false, 0
	for {
		err := call()
		if client.HasCode(err, codeJump) && jumps < mostJumps && ctx.Err() == nil {
			jumps++
			continue
		}
		var refused *client.Refused
		if cut && errors.As(err, &refused) && refused.Code != codeGone && !passing(err) {
			return fmt.Errorf("redis: the connection was cut, and the repeated call was refused, so the outcome is unknown: %s", refused.Text)
		}
		lost := !cut && harmless && ctx.Err() == nil && client.Cut(err) && !client.NotSent(err)
		cut = cut || lost
		if err == nil || !lost && !passing(err) || !time.Now().Before(end) {
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
func (c *caller) explain(ctx context.Context, err error) error {
	var r *client.Refused
	switch {
	case err == nil, errors.Is(err, errBell), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	case !errors.As(err, &r):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	why := map[string]string{
		codeGone:               "the store was wiped, or replaced by another one, since this program opened it; restart the program once that is as it should be",
		codeJump:               "the server's clock jumps again and again; look how the machine gets its time",
		client.CodeMemory:      "the server's memory is full, so it takes no writes until messages are handled or maxmemory is raised",
		client.CodeWrongType:   "a key below prefix " + driver.Quote(c.cfg.Prefix) + " holds something of another program",
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
