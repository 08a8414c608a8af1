package process

import (
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process/internal/flow"
)

// Messages of a plan that go to the poison queue are no reason to wait for ever. The begin of an agent counts as a
// failed attempt, or as one of unknown outcome, and the start of a part as a failed part. The word of an agent or a
// part, and an event that the plan listens to, are kept in the poison queue. Their step is stuck until they are sent
// back from there, or somebody acts on the step. So is the step that an alarm would end. Nothing waits for signals and
// acts.

// givenUp answers for an agent whose begin goes to the poison queue.
func givenUp(_ *channel.Envelope, b flow.Begin, why handlers.Poisoned) []channel.Message {
	outcome := flow.Failed
	if why.Reason == handlers.ReasonOutcomeUnknown {
		outcome = flow.Unknown
	}
	return []channel.Message{flow.Done{
		Plan: b.Plan, ID: b.ID, Path: b.Path, Run: b.Run, Attempt: b.Attempt, Item: b.Item, Undo: b.Undo, List: b.List,
		Outcome: outcome, Error: poisonedText(why), Began: why.First, Ended: why.Last, Echo: b.Input, Unheard: b.Undo == 0 && !b.List,
	}}
}

// lostStart answers for a part whose start goes to the poison queue.
func lostStart(_ *channel.Envelope, m flow.Start, why handlers.Poisoned) []channel.Message {
	if m.Parent == nil {
		return nil
	}
	return []channel.Message{flow.Done{
		Plan: m.Plan, ID: m.Parent.ID, Path: m.Parent.Path, Run: m.Parent.Run, Item: &m.Parent.Index,
		Outcome: flow.Failed, Error: poisonedText(why), Began: why.First, Ended: why.Last,
	}}
}

// lostDone says that a word goes to the poison queue.
func lostDone(_ *channel.Envelope, m flow.Done, why handlers.Poisoned) []channel.Message {
	if m.Outcome == flow.Lost {
		return nil
	}
	m.Result, m.Results, m.Echo = nil, nil, nil
	return lost(m, why)
}

// lostAlarm says that an alarm goes to the poison queue.
func lostAlarm(_ *channel.Envelope, m flow.Alarm, why handlers.Poisoned) []channel.Message {
	if m.Purge {
		return nil
	}
	return lost(flow.Done{Plan: m.Plan, ID: m.ID, At: m.At}, why)
}

func lost(m flow.Done, why handlers.Poisoned) []channel.Message {
	m.Outcome, m.Error = flow.Lost, poisonedText(why)
	return []channel.Message{m}
}

func poisonedText(why handlers.Poisoned) string {
	return "in the poison queue of " + why.Queue + ": " + why.Reason
}
