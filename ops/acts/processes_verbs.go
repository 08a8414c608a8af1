package acts

import (
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/process"
)

// processActs are the acts on the instances of plans.
func processActs() []*act.Act {
	const taken = " It is a message: a worker of the plan takes it. --wait waits for that, and the exit code is 1 if the instance refuses it."
	whole := func(in *instanceInput) []act.Field { return in.fields() }
	withStep := func(in *instanceInput) []act.Field { return in.fields(in.stepField()) }
	return []*act.Act{
		act.New(act.Act{Noun: "processes", Verb: "list", Role: act.Viewer, Reveals: true, About: "list the instances of plans",
			More: "Without --since it lists the instances that have not ended, or with a --status of those that have, those of the last day. It reads an " +
				"index that is some seconds behind. LASTED is from the start until now, or until the end. STANDS says what it waits for, when it ended, or why it is stuck.",
		}, (*instancesInput).fields, listInstances),
		act.New(act.Act{Noun: "processes", Verb: "show", Role: act.Viewer, Reveals: true, About: "show the steps of an instance and their times",
			More: "It draws the steps as a tree, with their times as bars. ID may be a part's, such as o17/02.00003. The errors of agents may be " +
				"personal. --json prints the stream with the state, in one line: each step has id, name, status, topic, key, msg, trackingId, created, " +
				"timestamp, timeout, ref, tag, prev and next. The stream's alarm is when the instance looks at its deadlines next, which may be " +
				"that of a step that has ended: nothing else happens then.",
		}, func(in *instanceInput) []act.Field {
			return []act.Field{in.idField(), planField(&in.plan), act.Flag(&in.trace, "trace", "show the times as Chrome trace JSON, which https://ui.perfetto.dev opens")}
		}, showInstance),
		act.New(act.Act{Noun: "processes", Verb: "signal", Role: act.Operator, Why: act.May, About: "send a signal to an instance",
			More: "FILE has the JSON of the message; - is the standard input. A signal that no step waits for yet is kept." + taken,
		}, func(in *instanceInput) []act.Field {
			return in.fields(act.Text(&in.kind, "kind", "the kind of the message").At("KIND").With(func(text string) error { return channel.Kind(text).Check() }),
				act.Content(&in.body, "body", "the JSON of the message", channel.MaxData).At("FILE"))
		}, signalInstance),
		act.New(act.Act{Noun: "processes", Verb: "cancel", Role: act.Operator, Undoes: true, Why: act.May, About: "cancel an instance",
			More: "Steps that have not begun don't begin. Those that have get 30 seconds. Then all that was done is undone, or kept, as the plan says." + taken,
		}, whole, onInstance(process.Operator.Cancel)),
		act.New(act.Act{Noun: "processes", Verb: "retry", Role: act.Operator, Why: act.May, Sure: act.May, About: "try a stuck step of an instance again, or those of many instances",
			More: "STEP is the step's ID as show prints it, or its name. Without it, it is the only one that is stuck. The agent gets the same key. " +
				"Without an ID, --stuck, --since, --waits, --tag and --prefix select instances, of which all steps that are stuck are tried. --since " +
				"is when they got stuck. A step whose outcome is unknown is tried again only by its instance's ID." + taken,
		}, func(in *instanceInput) []act.Field { return in.fieldsOfMany(0) }, retryInstances),
		act.New(act.Act{Noun: "processes", Verb: "skip", Role: act.Operator, Why: act.May, About: "let a stuck step of an instance count as done",
			More: "STEP is as for retry. If it is the step's undo that is stuck, that counts as undone." + taken,
		}, func(in *instanceInput) []act.Field {
			return append(withStep(in), act.Text(&in.result, "result", "the step's result, in `JSON`; without it the state stays as it is").With(wantJSON).Hidden())
		}, skipStep),
		act.New(act.Act{Noun: "processes", Verb: "fail", Role: act.Operator, Undoes: true, Why: act.May, About: "say that a step whose outcome is unknown was not done",
			More: "STEP is as for retry. The step fails, and what was done before is undone. If it was done, skip says so; retry has it done again " +
				"with the same key. Of a step with items, 03#7 is item 7, and 03 are all of them whose outcomes are unknown." + taken,
		}, withStep, failStep),
		act.New(act.Act{Noun: "processes", Verb: "rerun", Role: act.Operator, Undoes: true, Why: act.May, Sure: act.May, About: "run an instance again from a step on, or many instances",
			More: "The instance has ended, or is stuck. The steps from STEP on get new keys, so what their agents did before may be done again. " +
				"Without an ID, the flags select instances as those of list do, by default aborted ones of the last day; they run from STEP on, " +
				"or from the first step." + taken,
		}, func(in *instanceInput) []act.Field { return in.fieldsOfMany(1) }, rerunInstances),
		act.New(act.Act{Noun: "processes", Verb: "nudge", Role: act.Operator, Why: act.May, About: "let an instance look at its deadlines",
			More: "It also writes its row of the index anew." + taken,
		}, whole, onInstance(process.Operator.Nudge)),
		act.New(act.Act{Noun: "processes", Verb: "versions", Role: act.Viewer, About: "list the versions of plans, and how many instances of each are open",
			More: "A version without open instances needs no code any more. It reads a row for each open instance.",
		}, func(in *instancesInput) []act.Field { return []act.Field{planField(&in.plan)} }, listPlanVersions),
	}
}
