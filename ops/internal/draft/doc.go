// Package draft makes messages of what a person has written: a command, an edited message, a signal to an instance.
//
// # Laws
//
//   - A body fits the schema of its kind, which the program that consumes the kind has published. All faults of a body
//     are told together, each with its place.
//   - A schema comes from the store, and is not trusted: it names no file and no address.
//   - A body has one form, whatever the order of its members. So the same draft made twice is one message.
//   - A binary that has the code of the handler also decodes the message, and runs its Check.
//
// # Files
//
//	draft.go   Complete, from a body to a message, and Send
//	schema.go  a body against its schema; object.go has what a schema doesn't see
//	form.go    the one form of a body
package draft
