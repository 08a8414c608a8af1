// Package handling handles messages by the handlers that a program has registered. Package handlers is what a program
// sees of it; a worker, package process, schedules, views and the tests of programs use it as it stands here.
//
//	r := registry.Inside()                          // of a handlers.Registry
//	handling.Fold(r, handling.As{}, name, queue, …) // registers a handler; handlers.Decide does no more
//	d, err := r.Handlers.Resolve(queue, envelope)   // the handler of a message that has come, and its document
//	outcomes := handling.Handle(ctx, group, ds, commit)
//
// Code that is compiled for each type makes the first build slow. So only the registration of a handler is generic, and
// the registry keeps handlers without their types.
//
// # Files
//
//	registry.go   Registry: what a program has registered, and what is wrong with it
//	table.go      Handler, and Table, which finds the handler of a message; about.go lists them
//	register.go   the checks that each registration makes; As, by which the framework's own handlers differ
//	delivery.go   Delivery and Group; handle.go runs a reaction, or hands a group to its fold
//	fold.go       Fold: several messages in one read-modify-write of a document
//	passage.go    the way of folded messages through the middleware
//	react.go      React; reply.go has Reply, whose answer is sent in the unit of work that ends its message
//	turns.go      OneAtATime, and how the keys of a queue take turns
//	taketurn.go   Turn: messages of one key, one after the other; failing.go lets failed messages take theirs
//	poison.go     the compensations of messages that go to the poison queue
//	hooks.go      what a worker does before it starts, and after a clock was set
//
// Below it, package verdict says what an error means for its message, package usercode calls the user's code on
// goroutines that may be lost, and package once notes effects that should not be repeated.
package handling
