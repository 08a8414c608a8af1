package ops

import (
	"net/url"
	"slices"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/process"
)

// waysOf are the ways from the page of an instance. A person who may not act gets no way to the form of an act.
func (p *thingPage) waysOf(s *process.Stream, may bool) processes.Ways {
	to := processes.Ways{Whole: func(id string) string {
		if isDots(id) {
			return p.Root + "do/processes/show?" + url.Values{"id": {id}, "plan": {s.Plan}}.Encode()
		}
		return p.Root + "processes/" + url.PathEscape(id) + "?plan=" + url.QueryEscape(s.Plan)
	}}
	if may {
		to.Form = func(verb, id, step string) string {
			with := url.Values{"id": {id}, "plan": {s.Plan}}
			if verb == "signal" {
				with.Set("kind", step)
			} else if step != "" {
				with.Set("step", step)
			}
			return p.Root + "do/processes/" + verb + "?" + with.Encode()
		}
	}
	return to
}

// draw makes the picture of an instance of a plan. may says that the person may act on it.
func (p *thingPage) draw(command string, may bool, err error) error {
	if p.Told == nil || err != nil {
		return err
	}
	for _, x := range p.Told.Objects {
		if stream, ok := x.(*process.Stream); ok {
			p.stream = stream
			if p.Drawn, p.Steps, err = processes.HTML(stream, p.At, command, p.waysOf(stream, may)); err != nil {
				return err
			}
			p.Told = nil
			if len(stream.State) > 0 {
				state := new(told)
				if err := state.Thing(nil, nil, string(stream.State)); err != nil {
					return err
				}
				p.More = append(p.More, section{Name: "State", Told: state})
			}
		}
	}
	return nil
}

// takes reports that the thing of a page may take an act as the thing stands: a page offers no act that would be
// refused.
func (p *thingPage) takes(a *act.Act) bool {
	if p.stream != nil {
		return processes.Takes(p.stream, a.Verb)
	}
	if p.Told != nil && a.Noun == "queues" && a.Verb == "resume" {
		return !slices.ContainsFunc(p.Told.Objects, func(x any) bool { q, ok := x.(*acts.QueueShown); return ok && q.Paused == nil })
	}
	return true
}

// fill fills in a form what the page knows: a signal has the kind that the instance waits for.
func (p *thingPage) fill(a *act.Act, with url.Values) {
	if p.stream == nil || a.Verb != "signal" {
		return
	}
	if kinds := processes.Waited(p.stream); len(kinds) == 1 {
		with.Set("kind", kinds[0])
	}
}
