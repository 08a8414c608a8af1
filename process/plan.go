package process

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// A Plan is a sequence of steps over a state of type S, while it is being written. The verbs [Do], [Ask], [Wait] and so
// on append steps to it. Each step has a name of its own within the plan: up to 100 bytes of text without / ~ #, and
// not in the form of a path, such as 02.01.
type Plan[S any] struct {
	plan *flow.Plan
	seq  *flow.Seq
	hear *hearing
}

// A state is a decoded state on its way through the functions of a plan.
type state[S any] struct {
	value   S
	foreign bool // its JSON form has members that S doesn't know
}

// newPlan returns an empty plan over S.
func newPlan[S any](p *flow.Plan, hear *hearing) *Plan[S] {
	t := reflect.TypeFor[S]()
	if lost, err := jsonform.Check(t); err != nil {
		p.Fault("the state %v: %w", t, err)
	} else if len(lost) > 0 {
		p.Fault("the state %v loses its field %s in JSON: export it, or mark it with json:\"-\"", t, lost[0])
	}
	p.Decode = func(raw jsontext.Value) (any, error) {
		v, known, err := jsonform.DecodeKnown[S](raw)
		if err != nil {
			return nil, fmt.Errorf("state: %w", jsonform.RedactError[S](err))
		}
		return &state[S]{v, !known}, nil
	}
	p.Encode = func(old jsontext.Value, v any) (jsontext.Value, error) {
		s := v.(*state[S])
		raw, err := jsonform.Encode(s.value)
		if err == nil && s.foreign {
			raw, err = jsonform.KeepUnknown(t, old, raw)
		}
		if err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		return raw, nil
	}
	return &Plan[S]{plan: p, seq: p.Root, hear: hear}
}

// Within is how long an instance may take, all together. Then it fails, and what was done is undone. Defaults to no
// limit: each step has one.
func (p *Plan[S]) Within(d time.Duration) {
	if d <= 0 {
		p.plan.Fault("the plan %s: Within is %v; want a positive time", p.plan.Name, d)
	}
	p.plan.Within = d
}

// Retention is how long an instance is kept that has ended well; one that has not is kept three times as long. While an
// agent may still succeed, it is kept, too: for an hour and the longest [Step.Try], or for two days and that if an
// attempt has not answered. After that its ID is known for another 30 days. Defaults to 30 days.
func (p *Plan[S]) Retention(d time.Duration) {
	if d <= 0 {
		p.plan.Fault("the plan %s: Retention is %v; want a positive time", p.plan.Name, d)
	}
	p.plan.Retention = d
}

// Tags are what an instance can be found by, beside its ID: up to 4 KiB of them. f is pure.
func (p *Plan[S]) Tags(f func(S) map[string]string) {
	p.plan.Tags = func(v any) map[string]string { return f(v.(*state[S]).value) }
}

// Ended sends a message of the program when an instance has ended, or is stuck: an event, which the routes must have.
// make is pure, and gets the instance as it is then. If it panics, the instance has a note of that, and no message is
// sent.
func Ended[S any, M channel.Message](p *Plan[S], make func(Snapshot[S]) M) {
	if make == nil {
		p.plan.Fault("the plan %s: the function of Ended is nil", p.plan.Name)
		return
	}
	emits[M](p.plan, p.hear, "Ended", nil)
	version := p.plan.Version
	p.plan.Ended = func(v any, id string, s flow.Status, why string) channel.Message {
		m := channel.Message(make(Snapshot[S]{ID: id, Version: version, Status: s, State: v.(*state[S]).value, Error: why}))
		if wire.IsNil(m) {
			panic(errNilMessage)
		}
		return m
	}
}

// KeepOnCancel lets a cancelled instance keep what it has done. Without it, that is undone.
func (p *Plan[S]) KeepOnCancel() { p.plan.Keep = true }

func (p *Plan[S]) add(verb flow.Verb, name string) *flow.Node { return p.plan.Add(p.seq, verb, name) }

// sub builds a sequence of the plan.
func (p *Plan[S]) sub(s *flow.Seq, of string, build func(*Plan[S])) {
	if build == nil {
		p.plan.Fault("step %s: a function that builds its steps is nil", of)
		return
	}
	build(&Plan[S]{plan: p.plan, seq: s, hear: p.hear})
	if len(s.Steps) == 0 {
		p.plan.Fault("step %s: one of its branches has no step", of)
	}
}

// A Step is a step of a plan over S. Its methods change how it works, and return it. I is what its agent gets: S, or
// an item. R is the result.
type Step[S, I, R any] struct {
	plan *Plan[S]
	node *flow.Node
}

// fits notes a fault if a method makes no sense for the step's verb.
func (s *Step[S, I, R]) fits(method string, verbs ...flow.Verb) {
	for _, v := range verbs {
		if v == s.node.Verb {
			return
		}
	}
	s.plan.plan.Fault("step %s: %s is not for the verb %s", s.node.Name, method, s.node.Verb)
}

func (s *Step[S, I, R]) positive(method string, v float64) {
	if v <= 0 {
		s.plan.plan.Fault("step %s: %s is %v; want more than 0", s.node.Name, method, v)
	}
}

// Try is how long one attempt of an agent may take. Then its context ends. Defaults to a minute.
func (s *Step[S, I, R]) Try(d time.Duration) *Step[S, I, R] {
	s.fits("Try", flow.Do, flow.Each)
	s.positive("Try", float64(d))
	s.node.Try = d
	return s
}

// Within is how long the step may take, all attempts and all waiting included. Then it fails, or already when the next
// attempt would begin later. A success that comes later is undone. Defaults to an hour.
func (s *Step[S, I, R]) Within(d time.Duration) *Step[S, I, R] {
	s.positive("Within", float64(d))
	s.node.Within, s.node.Forever = d, false
	return s
}

// Forever lets the step take any time. Nothing but an operator ends it if its agent never answers.
func (s *Step[S, I, R]) Forever() *Step[S, I, R] {
	s.node.Forever = true
	return s
}

// Attempts is how often the agent is asked at most, for each item if there are several. Defaults to as often as there
// is time for: some 60 times within an hour. An agent whose error no repeat cures returns [Refuse].
func (s *Step[S, I, R]) Attempts(n int) *Step[S, I, R] {
	s.fits("Attempts", flow.Do, flow.Each)
	s.positive("Attempts", float64(n))
	s.node.Attempts = n
	return s
}

// Backoff is the delay after the first failed attempt. It doubles with each further one, up to a minute. Defaults to a
// second.
func (s *Step[S, I, R]) Backoff(d time.Duration) *Step[S, I, R] {
	s.fits("Backoff", flow.Do, flow.Each)
	s.positive("Backoff", float64(d))
	if d > channel.MaxDelay {
		s.plan.plan.Fault("step %s: Backoff is %v; want at most ten years", s.node.Name, d)
	}
	s.node.Backoff = d
	return s
}

// Undo takes back what the agent has done, if the plan fails or is cancelled later, or if the success comes too late.
// It gets the result, and the item of Each, or else the state as it was just after the step. An undo that fails is
// tried again for a day, and then the instance is stuck. The state of the instance is not taken back.
func (s *Step[S, I, R]) Undo(f func(context.Context, I, R) error) *Step[S, I, R] {
	s.fits("Undo", flow.Do, flow.Each)
	if f = replaced(s.plan.plan, s.plan.hear, "undo "+s.node.Name, f); f == nil {
		s.plan.plan.Fault("step %s: the function of Undo is nil", s.node.Name)
		return s
	}
	s.node.Undo = func(ctx context.Context, input, result jsontext.Value) error {
		i, err := decode[I](input)
		if err != nil {
			return err
		}
		r, err := decode[R](result)
		if err != nil {
			return err
		}
		return f(ctx, i, r)
	}
	return s
}

// Else builds the steps that run instead when this one fails for good. Before that, everything that was done
// within the failed step is undone; the state stays as it is. Afterwards the plan goes on.
func (s *Step[S, I, R]) Else(build func(*Plan[S])) *Step[S, I, R] {
	s.plan.sub(s.plan.plan.NewElse(s.node), s.node.Name, build)
	return s
}

// By gives the step to the agents of a queue, which several plans may share. So it has a concurrency, a pause and
// limits of its own. The plan's [Route] must name the queue.
func (s *Step[S, I, R]) By(queue string) *Step[S, I, R] {
	s.fits("By", flow.Do, flow.Each)
	s.node.By = queue
	return s
}

// AtOnce is how many items are worked on at a time. Defaults to 256.
func (s *Step[S, I, R]) AtOnce(n int) *Step[S, I, R] {
	s.fits("AtOnce", flow.Each, flow.Split)
	s.positive("AtOnce", float64(n))
	s.node.AtOnce = n
	return s
}

// Tolerate is how many items may fail without the step failing. Defaults to 0.
func (s *Step[S, I, R]) Tolerate(n int) *Step[S, I, R] {
	s.fits("Tolerate", flow.Each, flow.Split)
	if n < 0 {
		s.plan.plan.Fault("step %s: Tolerate is %d; want 0 or more", s.node.Name, n)
	}
	s.node.Tolerate = n
	return s
}

// TolerateShare is which share of the items, from 0 to 1, may fail without the step failing.
func (s *Step[S, I, R]) TolerateShare(share float64) *Step[S, I, R] {
	s.fits("TolerateShare", flow.Each, flow.Split)
	if !(share > 0 && share <= 1) {
		s.plan.plan.Fault("step %s: TolerateShare is %v; want more than 0, and at most 1", s.node.Name, share)
	}
	s.node.Share = share
	return s
}

// Refuse returns an error by which an agent says no for good: there will be no other attempt, and nothing was done.
func Refuse(err error) error { return &refusal{err} }

type refusal struct{ err error }

func (r *refusal) Error() string { return "refused: " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Effecter is a result that says which effect it stands for, such as the number of a receipt. Two successes of one step
// with different effects are two effects, and the second one is undone. Results without it are only marked as twice.
type Effecter interface{ Effect() string }

func decode[T any](raw jsontext.Value) (T, error) {
	v, err := jsonform.Decode[T](raw)
	if err != nil {
		return v, fmt.Errorf("%T: %w", v, jsonform.RedactError[T](err))
	}
	return v, nil
}

// encodeResult encodes an agent's result, and asks it for its effect.
func encodeResult(r any) (raw jsontext.Value, effect string, err error) {
	if raw, err = jsonform.Encode(r); err != nil {
		return nil, "", fmt.Errorf("result: %w", err)
	}
	if x, ok := r.(Effecter); ok {
		if effect = x.Effect(); !utf8.ValidString(effect) {
			effect = hex.EncodeToString([]byte(effect))
		}
	}
	return raw, effect, nil
}

// applying adapts a function that takes a result into the state. A nil function leaves the state as it is.
func applying[S, R any](f func(S, R) S) func(any, jsontext.Value) (any, error) {
	if f == nil {
		return nil
	}
	return func(v any, raw jsontext.Value) (any, error) {
		r, err := decode[R](raw)
		if err != nil {
			return nil, flow.Unreadable{Err: err}
		}
		s := v.(*state[S])
		return &state[S]{f(s.value, r), s.foreign}, nil
	}
}

var errNilMessage = errors.New("the message is nil")

// commanding adapts a function that makes a command.
func commanding[S any, C channel.Message](f func(S) C) func(any) channel.Message {
	return func(v any) channel.Message {
		m := channel.Message(f(v.(*state[S]).value))
		if wire.IsNil(m) {
			panic(errNilMessage)
		}
		return m
	}
}
