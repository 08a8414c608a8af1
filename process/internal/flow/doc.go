// Package flow is the pure part of package process: the plan as a tree, the document of an instance, and how a message
// advances it. It reads no clock and no store. Of the user's code it calls the plan's pure functions alone.
//
//	plan := flow.NewPlan("fulfil", 1)
//	charge := plan.Add(plan.Root, flow.Do, "charge")
//	err := plan.Finish()
//
//	out, changed, err := plan.Advance("o17", &document, message, time)
//
// A [Plan] is a sequence of [Node]s, some of which have sequences of their own. The path of a node, such as "03.01.02",
// follows from its place in the tree. An [Instance] is the document: the state of the user's type, and an [Event] for
// each step that was begun. [Plan.Advance] takes one message, and returns those to be sent.
//
// # How an instance moves
//
//   - A step is begun: its event is added, and its begin goes out in the same write. When it ends well, the next step
//     of its sequence begins. The last one ends the sequence, and with it the step that the sequence belongs to.
//   - A step that fails for good leads to its Else sequence, or fails the sequence that it is in, and so on upwards. A
//     scope that has failed is unwound: open steps in it are cancelled, and each may answer within its grace. Then
//     the steps that ended well are undone, in the reverse order of their ends.
//   - After a pivot a step that fails makes the instance stuck, unless an Else or another branch leads on.
//   - An item of a fan is a bit in the document. Children and pages are documents of their own. They get starts and
//     acts, and say once that they have ended. An ending step waits for the word of each.
//   - Time comes from messages alone. An alarm carries the time that it was set for, and ends what was to end by then.
//
// # Repeats
//
// Starts, completions and alarms leave no record, so the document recognises those that it has taken: a completion by
// the path, the run and the attempt of its step, and by the digest of its result; the completion of an item or a child
// by its bit; the report of a stuck part by its number; an alarm by the deadlines that are left. [Plan.Advance] reports
// no change for them. A success that is new is never lost: it ends its step, or it is undone, or it is marked.
//
// # Files
//
// A message on its way through a document is a fold. Each verb has a type, its kind, which says what a step does. A
// kind knows neither other kinds, nor the steps around its own. A kind notes the end of a step in the fold, and only
// scopes know what follows. Calls between these files go down the list, never up.
//
//   - advance.go: the way of a message through a document; settle.go: what each fold ends with
//   - alarm.go: when alarms are sent, and what ends by one; operate.go, outside.go, lost.go: what an act, a signal or
//     reply, and a lost message do
//   - run.go: how steps begin one after another; step_ended.go: what follows when a step ends
//   - unwind.go: what is cancelled and undone when a scope or the instance ends, and in which order; shelf.go: which
//     steps wait in rows for that
//   - announce.go: what the program, the parent and the index are told; purge.go: when the instance is purged
//   - kinds.go: the table of kinds; agent.go, ask.go, wait.go, sleep.go, instant.go, branch.go, child.go, fan.go: what
//     each does; base.go: what most of them do alike
//   - fan_item.go, page.go: what the end of an item or a list does
//   - attempt.go: what the success or failure of an attempt does; undo.go: how what a step has done is taken back;
//     pace.go: when the next attempt begins; doubt.go: what an unknown outcome does; part.go: what parts are asked
//   - step.go: how a step ends or halts, and what is kept for its undo; fold.go: what is collected
//   - strands.go, carry.go: upgrades; tree.go: what plan and document tell together; instance.go, fan_record.go,
//     size.go: the document; plan.go, print.go: the plan; message.go: the messages; address.go: how steps and
//     parts are called and which keys they have; times.go, text.go: helpers
package flow
