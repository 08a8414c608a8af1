// Package client talks to a Redis server. It is the one place that knows the library that does, so a change of the
// library changes this package alone.
//
//	conn, err := client.Dial(ctx, options)
//	reply, err := conn.Eval(ctx, script, key, args)   // EVALSHA, and EVAL once where the server lacks the script
//	reply, err := conn.Do(ctx, "GET", key)
//	ear, err := conn.Hear(ctx, func(channel, data string) { … })
//	err = ear.Subscribe(ctx, "channel")
//
// # Laws
//
//   - A call is sent once. The exception is a script that the server doesn't know: the server has refused that call.
//   - An error of the server is a [Refused]. Any other error is of the connection, or of the context. [NotSent] tells
//     whether the server can't have got the call.
//   - Calls under way share a connection. A subscription has a connection of its own.
//   - No error holds a password.
//
// # Files
//
//	client.go   the interface, its options, and the errors
//	dial.go     the library behind the interface
//	hear.go     subscriptions
//	reply.go    what the server answers
package client
