package acts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/draft"
	"github.com/millrace-go/millrace/ops/internal/instances"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// An InstanceAct is what an instance was asked, and what has become of that.
type InstanceAct struct {
	Plan string `json:"plan"`
	ID   string `json:"id"` // the instance, or the part
	Do   string `json:"do"`
	Step string `json:"step,omitempty"`
	// Result is asked: a message, which a worker of the plan takes; done, refused, unanswered; or selected by a dry run.
	Result string `json:"result"`
	Text   string `json:"text,omitempty"` // why not, or how
}

// The results of acts on instances, beside selected.
const (
	instanceAsked   = "asked"
	instanceDone    = "done"
	instanceRefuses = "refused"
	instanceSilent  = "unanswered"
)

// An instanceInput is what acts on instances take. Each takes a part of it.
type instanceInput struct {
	instanceSelection     // in place of id
	steps             int // how many words tell a step, for an act that takes a selection
	plan, id          string
	step, result      string
	kind              string
	body              []byte
	trace             bool
	wait              time.Duration
}

// fields are an instance, more fields, and what all acts on an instance take.
func (in *instanceInput) fields(more ...act.Field) []act.Field {
	return slices.Concat([]act.Field{in.idField()}, more, []act.Field{planField(&in.plan),
		act.Duration(&in.wait, "wait", "wait at most this `TIME` for the answer; the default is not to wait", 0, act.MaxAhead)})
}

func (in *instanceInput) idField() act.Field {
	return act.Text(&in.id, "id", "the instance").At("ID").From(instanceNames)
}

func (in *instanceInput) stepField() act.Field {
	return act.Text(&in.step, "step", "the step's ID as show prints it, or its name; the default is the only step that is stuck").At("STEP").Maybe()
}

// fieldsOfMany are the fields of an act that also takes a selection.
func (in *instanceInput) fieldsOfMany(steps int) []act.Field {
	in.steps = steps
	all := append(in.fields(in.stepField()), act.Selecting(in.instanceSelection.fields())...)
	all[0] = all[0].Maybe()
	return all
}

// Check implements the check of an input.
func (in *instanceInput) Check() error {
	words := 0
	for _, word := range []string{in.id, in.step} {
		if word != "" {
			words++
		}
	}
	switch {
	case in.Selects() && words > in.steps:
		return act.Usage("want one instance by --id, or those that are selected, such as by --since, not both")
	case in.Selects():
		return in.instanceSelection.Check()
	case words <= in.steps:
		return act.Usage("want %s, or what selects instances, such as --since", []string{"--id, and --step if need be", "--id and --step"}[in.steps])
	}
	err := storage.CheckKey(in.id)
	switch {
	case err != nil:
	case strings.Contains(in.id, "#"):
		err = errors.New("it has a #")
	case strings.TrimSpace(in.id) == "":
		err = errors.New("it is blank")
	}
	switch {
	case err != nil:
		return act.UsageOf("id", "%w", err)
	case in.body != nil && !json.Valid(in.body):
		return act.UsageOf("body", "it is not JSON")
	}
	return nil
}

func wantJSON(text string) error {
	if !json.Valid([]byte(text)) {
		return act.Usage("it is not JSON; text needs quotes of its own, as in '\"done\"'")
	}
	return nil
}

// actOn asks an instance for something, and tells what has become of that.
func actOn(ctx context.Context, c *act.Call, in *instanceInput, do func(l *process.Looker, o process.Operator) (process.Asked, error)) error {
	if c.DryRun {
		return act.Usage("--dry-run is for what selects instances, such as --since")
	}
	l, err := instances.Find(ctx, c.Desk, in.plan, in.id)
	if err != nil {
		return err
	}
	asked, err := do(l, l.Operator(c.By, c.Why).Under(c.ID))
	if err != nil {
		return err
	}
	line := newInstanceAct(l, asked)
	if in.wait > 0 {
		if err := line.await(ctx, l, asked, in.wait); err != nil {
			return err
		}
	}
	what := strings.TrimSpace(line.Do + " " + line.Step)
	of := fmt.Sprintf("%s of %s", storage.Quote(line.ID), line.Plan)
	switch line.Result {
	case instanceRefuses:
		return errors.Join(c.Say(line, ""), fmt.Errorf("refused: %s", line.Text))
	case instanceSilent:
		return errors.Join(c.Say(line, ""), fmt.Errorf("no answer within %v: it is kept, and a worker of plan %s takes it; %s processes show %s tells then", in.wait, l.Plan(), c.Command, act.ShellWord(in.id)))
	case instanceAsked:
		c.Came(act.IsAsked)
		return c.Say(line, "Asked %s to %s. %s processes show %s tells what has become of it, and --wait waits for that.", of, what, c.Command, act.ShellWord(in.id))
	}
	return c.Say(line, "%s.", strings.TrimSuffix(fmt.Sprintf("%s: %s is done: %s", of, what, line.Text), ": "))
}

func newInstanceAct(l *process.Looker, asked process.Asked) InstanceAct {
	return InstanceAct{Plan: l.Plan(), ID: asked.ID, Do: asked.Do, Step: asked.Step, Result: instanceAsked}
}

// await waits for the answer to an act.
func (a *InstanceAct) await(ctx context.Context, l *process.Looker, asked process.Asked, wait time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := l.Answer(waiting, asked)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && waiting.Err() != nil:
		a.Result = instanceSilent
	case err != nil:
		return err
	case answer.Done:
		a.Result, a.Text = instanceDone, answer.Text
	default:
		a.Result, a.Text = instanceRefuses, answer.Text
	}
	return nil
}

// onInstance is an act on an instance as a whole.
func onInstance(do func(process.Operator, context.Context, string) (process.Asked, error)) func(context.Context, *act.Call, *instanceInput) error {
	return func(ctx context.Context, c *act.Call, in *instanceInput) error {
		return actOn(ctx, c, in, func(_ *process.Looker, o process.Operator) (process.Asked, error) { return do(o, ctx, in.id) })
	}
}

// onStep is an act on a step of an instance.
func onStep(ctx context.Context, c *act.Call, in *instanceInput, do func(o process.Operator, ctx context.Context, id, step string) (process.Asked, error)) error {
	return actOn(ctx, c, in, func(l *process.Looker, o process.Operator) (process.Asked, error) {
		step, err := instances.Step(ctx, c.Desk, l, in.id, in.step)
		if err != nil {
			return process.Asked{}, err
		}
		return do(o, ctx, in.id, step)
	})
}

// failStep says that a step whose outcome is unknown was not done.
func failStep(ctx context.Context, c *act.Call, in *instanceInput) error {
	return onStep(ctx, c, in, process.Operator.Fail)
}

// skipStep lets a stuck step count as done.
func skipStep(ctx context.Context, c *act.Call, in *instanceInput) error {
	return onStep(ctx, c, in, func(o process.Operator, ctx context.Context, id, step string) (process.Asked, error) {
		var result []byte
		if in.result != "" {
			result = []byte(in.result)
		}
		return o.Skip(ctx, id, step, result)
	})
}

// signalInstance sends a signal to an instance.
func signalInstance(ctx context.Context, c *act.Call, in *instanceInput) error {
	return actOn(ctx, c, in, func(l *process.Looker, o process.Operator) (process.Asked, error) {
		kind := channel.Kind(in.kind)
		waits, err := l.Waits(ctx)
		schema, waited := waits[in.kind]
		switch {
		case err != nil:
			return process.Asked{}, err
		case len(waits) > 0 && !waited:
			return process.Asked{}, act.Usage("no step of plan %s waits for %s; want one of %s", l.Plan(), act.Word(in.kind), strings.Join(slices.Sorted(maps.Keys(waits)), ", "))
		}
		if about := c.Known.Kind(kind); schema == nil && about != nil {
			schema = about.Schema
		}
		if schema != nil {
			err = draft.Check(in.body, schema)
		}
		var body []byte
		if err == nil {
			body, err = draft.Form(in.body)
		}
		if err != nil {
			return process.Asked{}, act.UsageOf("body", "%w", err)
		}
		return o.Signal(ctx, in.id, kind, body)
	})
}
