// Package millrace is the root of a framework for commands that queues carry to workers: at-least-once delivery,
// exactly-once effect. It holds no code.
//
// Begin with the packages below it: [github.com/millrace-go/millrace/channel] for messages and how they are sent,
// [github.com/millrace-go/millrace/handlers] for what is done with them,
// [github.com/millrace-go/millrace/views] for what is read,
// [github.com/millrace-go/millrace/worker] for the host of it all, and
// [github.com/millrace-go/millrace/sample/reservations] for an example to copy.
package millrace
