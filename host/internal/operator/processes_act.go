package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/processes"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// actLine is what -json prints of an act.
type actLine struct {
	Plan   string `json:"plan"`
	ID     string `json:"id"` // the instance, or the part
	Do     string `json:"do"`
	Step   string `json:"step,omitempty"`
	Result string `json:"result"`
	Text   string `json:"text,omitempty"` // why not, or how
}

// The results of acts.
const (
	actAsked   = "asked" // a message; a worker of the plan takes it
	actDone    = "done"
	actRefused = "refused"
	actWaits   = "unanswered"
)

// act does something with an instance, and tells what has become of it.
func (c processCall) act(ctx context.Context, verb string, do func(l *process.Looker, o process.Operator, id string) (process.Asked, error)) error {
	id := c.args[0]
	l, err := c.find(ctx, verb, id)
	if err != nil {
		return err
	}
	asked, err := do(l, l.Operator(coordCall(c).author(), c.why), id)
	if err != nil {
		return err
	}
	line := actLine{Plan: l.Plan(), ID: asked.ID, Do: asked.Do, Step: asked.Step, Result: actAsked}
	if c.wait > 0 {
		if err := c.await(ctx, l, asked, &line); err != nil {
			return err
		}
	}
	if c.json {
		if err := c.out.line(line); err != nil {
			return err
		}
	}
	switch {
	case line.Result == actRefused:
		return fmt.Errorf("%s: refused: %s", verb, line.Text)
	case line.Result == actWaits:
		return fmt.Errorf("%s: no answer within %v: it is kept, and a worker of plan %s takes it; %s processes show %s tells then", verb, c.wait, l.Plan(), c.Command, boot.Clean(boot.ShellWord(id)))
	case c.json:
		return nil
	}
	c.out.printf("%s\n", boot.Clean(told(line, id, c.Command)))
	return nil
}

// await waits for the answer to an act.
func (c processCall) await(ctx context.Context, l *process.Looker, asked process.Asked, line *actLine) error {
	waiting, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	answer, err := l.Answer(waiting, asked)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && waiting.Err() != nil:
		line.Result = actWaits
	case err != nil:
		return err
	case answer.Done:
		line.Result, line.Text = actDone, answer.Text
	default:
		line.Result, line.Text = actRefused, answer.Text
	}
	return nil
}

// told tells people what has become of an act.
func told(line actLine, id, command string) string {
	what := line.Do
	if line.Step != "" {
		what += " " + line.Step
	}
	switch {
	case line.Result == actAsked:
		return fmt.Sprintf("Asked %s of %s to %s. %s processes show %s tells what has become of it, and -wait waits for that.", storage.Quote(line.ID), line.Plan, what, command, boot.ShellWord(id))
	case line.Text != "":
		return fmt.Sprintf("%s of %s: %s is done: %s.", storage.Quote(line.ID), line.Plan, what, line.Text)
	}
	return fmt.Sprintf("%s of %s: %s is done.", storage.Quote(line.ID), line.Plan, what)
}

// stuckNames are steps by their lines and names.
func stuckNames(stuck []processes.StuckStep) string {
	var all []string
	for _, x := range stuck {
		all = append(all, x.String())
	}
	return strings.Join(all, ", ")
}

// pathLike is a word that is a step's line, or an item of it, and not its name.
var pathLike = regexp.MustCompile(`^[0-9][0-9./~]*(#[0-9]+)?$`)

// arg returns an argument, or "".
func (c processCall) arg(n int) string {
	if n < len(c.args) {
		return c.args[n]
	}
	return ""
}

// step finds the step that an act is for: by its line, by its name, or as the only one that is stuck.
func (c processCall) step(ctx context.Context, verb string, l *process.Looker, id, step string) (string, error) {
	if pathLike.MatchString(step) {
		return step, nil
	}
	s, err := l.Stream(ctx, id)
	if err != nil {
		return "", err
	}
	if step == "" {
		switch stuck := processes.Stuck(s); len(stuck) {
		case 0:
			return "", nothing("%s: no step of %s is stuck", verb, storage.Quote(id))
		case 1:
			return stuck[0].ID, nil
		default:
			return "", usage("%s: several steps are stuck; name one of %s", verb, stuckNames(stuck))
		}
	}
	var lines []string
	run := -1
	for _, x := range s.Lines[1:] {
		if x.Name != step || x.Run < run {
			continue
		}
		if x.Run > run { // the last run counts
			run, lines = x.Run, nil
		}
		lines = append(lines, x.ID)
	}
	switch len(lines) {
	case 0:
		return "", nothing("%s: no step %s has begun in %s; %s processes show %s shows those that have", verb, storage.Quote(step), storage.Quote(id), c.Command, boot.ShellWord(id))
	case 1:
		return lines[0], nil
	}
	return "", usage("%s: several steps have this name; name one of %s", verb, strings.Join(lines[:min(len(lines), 10)], ", "))
}

func processesCancel(ctx context.Context, x *call) error {
	return processCall{x}.act(ctx, "processes cancel", func(_ *process.Looker, o process.Operator, id string) (process.Asked, error) {
		return o.Cancel(ctx, id)
	})
}

func processesNudge(ctx context.Context, x *call) error {
	return processCall{x}.act(ctx, "processes nudge", func(_ *process.Looker, o process.Operator, id string) (process.Asked, error) {
		return o.Nudge(ctx, id)
	})
}

func processesRetry(ctx context.Context, x *call) error {
	c := processCall{x}
	if c.selects() {
		return c.actOnAll(ctx, "processes retry", process.Stuck, stuckOf(ctx, process.Operator.Retry))
	}
	return c.act(ctx, "processes retry", func(l *process.Looker, o process.Operator, id string) (process.Asked, error) {
		step, err := c.step(ctx, "processes retry", l, id, c.arg(1))
		if err != nil {
			return process.Asked{}, err
		}
		return o.Retry(ctx, id, step)
	})
}

func processesSkip(ctx context.Context, x *call) error {
	c := processCall{x}
	return c.act(ctx, "processes skip", func(l *process.Looker, o process.Operator, id string) (process.Asked, error) {
		step, err := c.step(ctx, "processes skip", l, id, c.arg(1))
		if err != nil {
			return process.Asked{}, err
		}
		var result []byte
		if c.result != "" {
			result = []byte(c.result)
		}
		return o.Skip(ctx, id, step, result)
	})
}

func processesFail(ctx context.Context, x *call) error {
	c := processCall{x}
	return c.act(ctx, "processes fail", func(l *process.Looker, o process.Operator, id string) (process.Asked, error) {
		step, err := c.step(ctx, "processes fail", l, id, c.arg(1))
		if err != nil {
			return process.Asked{}, err
		}
		return o.Fail(ctx, id, step)
	})
}

func processesRerun(ctx context.Context, x *call) error {
	c := processCall{x}
	if c.selects() {
		return c.actOnAll(ctx, "processes rerun", process.Aborted, func(l *process.Looker, o process.Operator, id string) ([]process.Asked, error) {
			step, err := c.step(ctx, "processes rerun", l, id, cmp.Or(c.arg(0), firstStep))
			if err != nil {
				return nil, err
			}
			asked, err := o.Rerun(ctx, id, step)
			return []process.Asked{asked}, err
		})
	}
	return c.act(ctx, "processes rerun", func(l *process.Looker, o process.Operator, id string) (process.Asked, error) {
		step, err := c.step(ctx, "processes rerun", l, id, c.arg(1))
		if err != nil {
			return process.Asked{}, err
		}
		return o.Rerun(ctx, id, step)
	})
}

func checkSkip(verb string, o options) error {
	if o.result != "" && !json.Valid([]byte(o.result)) {
		return usage("%s: -result is not JSON; text needs quotes of its own, as in '\"done\"'", verb)
	}
	return nil
}

// readSignal reads the body of a signal before the store is open.
func readSignal(ctx context.Context, c *call) error {
	if err := channel.Kind(c.args[1]).Check(); err != nil {
		return usage("processes signal: %w", err)
	}
	if err := c.readInput(ctx, "processes signal", c.args[2]); err != nil {
		return err
	}
	if !json.Valid(c.input) {
		return usage("processes signal: %s: it is not JSON", inputName(c.args[2]))
	}
	return nil
}

func processesSignal(ctx context.Context, x *call) error {
	c := processCall{x}
	return c.act(ctx, "processes signal", func(l *process.Looker, o process.Operator, id string) (process.Asked, error) {
		kind := channel.Kind(c.args[1])
		waits, err := l.Waits(ctx)
		schema, waited := waits[c.args[1]]
		switch {
		case err != nil:
			return process.Asked{}, err
		case len(waits) > 0 && !waited:
			kinds := strings.Join(slices.Sorted(maps.Keys(waits)), ", ")
			return process.Asked{}, usage("processes signal: no step of plan %s waits for %s; want one of %s", l.Plan(), boot.Word(c.args[1]), kinds)
		}
		if about := c.known.kind(kind); schema == nil && about != nil {
			schema = about.Schema
		}
		if schema != nil {
			if err := checkBody(c.input, schema); err != nil {
				return process.Asked{}, usage("processes signal: %s: %w", inputName(c.args[2]), err)
			}
		}
		body, err := normalised(c.input)
		if err != nil {
			return process.Asked{}, usage("processes signal: %s: %w", inputName(c.args[2]), err)
		}
		return o.Signal(ctx, id, kind, body)
	})
}

// checkInstance refuses an ID that no instance can have.
func checkInstance(_ context.Context, c *call) error {
	if c.selects() {
		return nil
	}
	err := storage.CheckKey(c.args[0])
	if err == nil && strings.Contains(c.args[0], "#") {
		err = errors.New("it has a #")
	}
	if err == nil && strings.TrimSpace(c.args[0]) == "" {
		err = errors.New("it is blank")
	}
	if err != nil {
		return usage("ID: %w", err)
	}
	return nil
}
