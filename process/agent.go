package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/values"
)

type agentKey struct{}

// Key returns the idempotency key of the step that an agent works on: the same for every attempt, another one for each
// item, for its undo, and when an operator runs the step again. Give it to services that recognise repeats. It is empty
// outside of an agent.
func Key(ctx context.Context) string {
	b, _ := ctx.Value(agentKey{}).(*flow.Begin)
	if b == nil {
		return ""
	}
	return b.Key
}

// Attempt returns which attempt at its step an agent is, from 1. It grows, so it serves as a fence: a service that
// knows a later attempt refuses an earlier one. It is 0 outside of an agent.
func Attempt(ctx context.Context) int {
	b, _ := ctx.Value(agentKey{}).(*flow.Begin)
	if b == nil {
		return 0
	}
	return b.Attempt
}

// ID returns the instance that an agent works for. It is empty outside of an agent. The instance of a part, such as a
// child of [Split], has the ID of the whole before its first slash.
func ID(ctx context.Context) string {
	b, _ := ctx.Value(agentKey{}).(*flow.Begin)
	if b == nil {
		return ""
	}
	return b.ID
}

// agents runs the agents of a plan's steps.
type agents struct {
	plan      string
	versions  map[int]*flow.Plan
	registry  *handling.Registry
	instances *values.Collection[flow.Instance]
	goingBack *lru.Cache[struct{}] // see host
	calls     *calls
	teller    teller
	meters    *meters
}

func newAgents(d *definition, r *handling.Registry, instances *values.Collection[flow.Instance], goingBack *lru.Cache[struct{}], m *meters) *agents {
	return &agents{d.name, d.versions, r, instances, goingBack, newCalls(), teller{d.name, r}, m}
}

// run runs an agent, and returns its word. A word that comes when nobody may wait for it any more is sent from here.
func (a *agents) run(ctx context.Context, e *channel.Envelope, b flow.Begin) ([]channel.Message, error) {
	if word, ok := a.calls.words.Get(e.ID); ok {
		return []channel.Message{word}, nil
	}
	if !a.calls.begin(b.Key) {
		return nil, handlers.Later(goesOnFor, "an earlier call of the agent goes on here")
	}
	defer a.calls.end(b.Key)
	n, err := a.node(ctx, b)
	if err != nil || n == nil || !a.wanted(ctx, e, b) {
		return nil, err
	}
	done, err := a.call(ctx, n, b)
	final := done.Outcome == flow.OK || done.Outcome == flow.Refused || done.Outcome == flow.Never || done.Outcome == flow.Unknown
	stopped := ctx.Err() == context.Canceled // the worker stops, or has lost the message
	v := verdict.Judge(err)
	asks := v.Action == verdict.HandBack
	ended := func() bool { // the step no longer waits for the attempt, as the store tells if it can
		s, err := a.instances.Get(ctx, b.ID, "")
		return err == nil && !s.Value.Wants(b)
	}
	switch {
	case stopped && !final, asks && ctx.Err() != nil, v.Action == verdict.Unavailable && !ended():
		return nil, err // the message comes again
	case asks:
		a.registry.Logger.LogAttrs(ctx, slog.LevelInfo, "an agent asks to be called later", slog.String("plan", a.plan),
			slog.String("instance", b.ID), slog.String("step", b.Name), slog.Duration("after", v.After), slog.String("reason", flow.Text(v.Reason, 1000)))
		return []channel.Message{askedLater(b, cmp.Or(v.After, time.Second))}, nil
	}
	a.meters.attempt(done)
	a.calls.keep(e.ID, done)
	if ctx.Err() != nil {
		return nil, a.teller.say(ctx, done)
	}
	return []channel.Message{done}, nil
}

// call calls the agent, and returns its word, and its error.
func (a *agents) call(ctx context.Context, n *flow.Node, b flow.Begin) (done flow.Done, err error) {
	done = flow.Done{Plan: b.Plan, ID: b.ID, Path: b.Path, Run: b.Run, Attempt: b.Attempt, Item: b.Item, Undo: b.Undo, List: b.List, Began: time.Now().UTC(), Worker: worker()}
	limit := n.Try
	if b.Within > 0 {
		limit = min(limit, b.Within)
	}
	ctx = wire.WithWork(context.WithValue(ctx, agentKey{}, &b), wire.Work{Key: b.Key, Attempts: b.Attempt - 1, HandBacks: b.HandBacks})
	if m, ok := wire.HandlingUnder(ctx); ok {
		m.Limit = limit
	}
	ctx, cancel := right.WithTimeoutCause(ctx, limit, fmt.Errorf("the attempt took longer than %v", limit))
	defer cancel()
	defer a.teller.silent(ctx, b)()
	defer a.showSlow(b).Stop()
	err = usercode.Contain(func() (err error) {
		done.Result, done.Effect, err = callUser(ctx, n, b)
		return err
	})
	done.Ended = time.Now().UTC()
	judge(&done, err)
	if b.Item != nil && b.Undo == 0 && (err != nil || n.Undo != nil) {
		done.Echo = b.Input
	}
	return done, err
}

// node returns the step of a begin. It is nil for a copy that comes after all is known.
func (a *agents) node(ctx context.Context, b flow.Begin) (*flow.Node, error) {
	whole, path := a.versions[b.Version], b.Path
	if whole == nil {
		s, err := a.instances.Get(ctx, b.ID, "")
		switch {
		case err != nil:
			return nil, err
		case s.Value.Knows(b):
			return nil, nil // it may have ended before its version went
		}
		whole, path = a.versions[s.Value.Version], s.Value.PathOf(b) // it may have been taken over meanwhile
	}
	if whole == nil {
		return nil, handlers.Later(unknownVersion, fmt.Sprintf("no version %d of the plan %s is registered here", b.Version, a.plan))
	}
	if plan := whole.Find(b.Part); plan != nil {
		if n := plan.Node(path); n != nil {
			return n, nil
		}
	}
	return nil, handlers.Poison("no such step", fmt.Errorf("process: plan %s, version %d, has no step %s %s", a.plan, b.Version, b.Part, b.Path))
}

// askedLater returns the begin of an attempt that is to come later. It is a message of its own, so a second delivery
// still means that a worker has died with the first.
func askedLater(b flow.Begin, after time.Duration) channel.Message {
	b.Later, b.HandBacks = true, b.HandBacks+1
	after = min(max(after, time.Millisecond), channel.MaxDelay)
	if b.Within > 0 {
		b.Within = max(b.Within-after, time.Millisecond)
	}
	return channel.After(after, b)
}

// showSlow has the index show the step of an agent that works for long.
func (a *agents) showSlow(b flow.Begin) *time.Timer {
	return time.AfterFunc(flow.ShowAfter, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flow.ShowAfter)
		defer cancel()
		_ = a.registry.Channels.Send(ctx, flow.Record{Plan: a.plan, ID: flow.TopID(b.ID)}) // else the next record shows it
	})
}

// callUser calls the user's function.
func callUser(ctx context.Context, n *flow.Node, b flow.Begin) (result jsontext.Value, effect string, err error) {
	switch {
	case b.Undo > 0 && n.Undo == nil:
		return nil, "", handlers.Poison("no undo", fmt.Errorf("the step %s has no undo any more", n.Name))
	case b.Undo > 0 && b.Item != nil:
		item, result, err := flow.Armed(b.Result)
		if err != nil {
			return nil, "", err
		}
		return nil, "", n.Undo(ctx, item, result)
	case b.Undo > 0:
		return nil, "", n.Undo(ctx, b.State, b.Result)
	case b.List:
		result, err = n.List(ctx, b.State, b.Input)
		return result, "", err
	}
	return n.Agent(ctx, b.State, b.Input)
}

// judge turns an agent's error into an outcome.
func judge(done *flow.Done, err error) {
	if err == nil {
		done.Outcome = flow.OK
		return
	}
	done.Result = nil
	var (
		refused *refusal
		poison  *handlers.PoisonError
		retry   *handlers.RetryError
	)
	done.Outcome = flow.Failed
	switch {
	case verdict.Judge(err).OutcomeUnknown():
		done.Outcome = flow.Unknown
	case errors.As(err, &refused):
		done.Outcome = flow.Refused
	case errors.As(err, &poison):
		done.Outcome = flow.Never
	case errors.As(err, &retry):
		done.After = max(0, retry.After)
	}
	const most = 1000
	done.Error = flow.Text(err.Error(), most)
}

// freshBegin is how old a begin may be that is run without a look at the document. It is less than the age at which
// package values sends once more what a worker may not have sent (values.Config.PendingAfter).
const freshBegin = time.Minute

// wanted reports that a begin should be run. One that is not fresh may be a copy, or its step has ended meanwhile. So
// the document is asked, as it is before a later attempt, and where the instance is known to go back. A worker may also
// have run the begin before, and died. Then it is run again unless its success is known: one that nobody has heard of
// must be, to be taken or undone.
func (a *agents) wanted(ctx context.Context, e *channel.Envelope, b flow.Begin) bool {
	sent := e.Time
	if e.Due.After(sent) {
		sent = e.Due
	}
	again := handlers.Deliveries(ctx) > 1
	_, goesBack := a.goingBack.Get(b.ID)
	if !again && !goesBack && !b.Later && b.Attempt == 1 && time.Since(sent) < freshBegin {
		return true
	}
	s, err := a.instances.Get(ctx, b.ID, "")
	if err != nil {
		return true // the agent may know more than this store
	}
	if s.Value.Doubts(b) { // only an operator repeats it
		return e.Retried != ""
	}
	return again && !s.Value.Knows(b) || s.Value.Wants(b)
}

// worker names the machine for people.
func worker() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
