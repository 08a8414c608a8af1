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
// Whatever a handler does ends in a verdict for its message alone. A panic is a failed attempt, as are runtime.Goexit (a
// test's FailNow) and an error whose own methods panic: the user's code runs on goroutines that can be spared only, and an
// error is asked once, there, for all it knows. A handler that goes on after Config.Timeout is given up, which is a failed
// attempt, too.
//
// Messages for one document that were received together are folded in one read-modify-write; see package
// values. Reactions run alone.
package handlers
