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
//     scope that has failed is unwound: open steps in it are cancelled, and when each has answered or has had its
//     grace, the steps that ended well are undone, the last one that ended first.
//   - After a pivot a step that fails makes the instance stuck, unless an Else or another branch leads on.
//   - An item of a fan is a bit in the document. Children and pages are documents of their own. They get starts and
//     acts, and say once that they have ended. An ending step waits for the word of each.
//   - Time comes from messages alone. An alarm carries the time that it was set for, and ends what was to end by then.
//
// # Repeats
//
// Starts, completions and alarms leave no record, so the document recognises those that it has taken: a completion by
// the path, the run and the attempt of its step, and by the digest of its result; one of an item or a child by its bit;
// a word of a part that is stuck by its number; an alarm by the deadlines that are left. [Plan.Advance] reports no
// change for them. A success that is new is never lost: it ends its step, or it is undone, or it is marked.
//
// # The parts of a turn
//
// A message on its way through a document is a turn. Each of its types knows one thing: step, opening, word and ear a
// step; fan, listed and parts its items and children; scopes the sequences and their unwinding; undoing the undos;
// clock the deadlines; operator the acts; settler the end of the turn.
package flow
