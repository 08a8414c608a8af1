// Package handlers is where a program says what it does with messages: the registry of typed handlers.
//
//   - [Decide]: a command changes a value object and emits events. Pure.
//   - [React]: an event (or a command) has an effect on the world outside.
//   - views.Project and views.Latest fold events into views; they register here too.
//
// A handler says how its message ends by the error it returns:
//
//	nil                    done: the message is deleted
//	Retry(after, err)      not done, try again after a delay of its choice; spends an attempt
//	Later(after, reason)   not yet; spends no attempt
//	Poison(reason)         never: to the poison queue at once
//	any other error        not done, try again; spends an attempt; the worker chooses the delay
//
// A business refusal ("no tables left") is an event, not an error.
//
// Handlers are wrapped by middleware. Built in and on: panics become errors of that message alone, a reaction
// is bounded by Config.Timeout, and failures are logged, once, without the message's body: a verdict of
// poison by the worker, when it is carried out.
//
// Messages for one document that were received together are folded in one read-modify-write; see package
// values. Reactions run alone.
package handlers
