// Package unsend takes messages that wait out of their queues: a message that somebody takes back, or all messages that
// wait.
//
// # Laws
//
//   - A message that a handler has had stays: it may have had its effect. So does a message that a worker holds.
//   - A purge deletes no more messages than waited when it began: those that come meanwhile are not meant.
//   - A message that is deleted takes its body along, which may lie beside the queue.
//
// # Files
//
//	cancel.go  one message
//	purge.go   all that wait
package unsend
