package driver

import "context"

// Work is one unit of work: write rows, then a document, then send messages, then delete received messages. Any part
// may be missing.
type Work struct {
	Rows   *Rows
	Write  *Write
	Send   []Send
	Delete []Claim
}

// Rows puts rows of one partition, unconditionally: any number, each key once.
type Rows struct {
	Table, Partition string
	Puts             []RowPut
}

// A Write puts one blob.
type Write struct {
	Container, Key string
	Body           []byte
	If             Condition
}

// A Send adds one message to a queue.
type Send struct {
	Queue   string
	Message Message
}

// A Claim is a received message: its queue and the newest receipt.
type Claim struct {
	Queue   string
	Receipt Receipt
}

// Committed is the outcome of a unit of work.
type Committed struct {
	ETag  ETag    // of the blob written, if any
	Stale []Claim // deletions that did nothing, because somebody else holds or has deleted the message
}

// A Committer does a unit of work atomically: all or nothing. The exception is stale receipts in Delete: they are
// reported, and undo neither the write nor the sends. [ErrPrecondition] and [ErrExists] mean that the write's
// condition failed.
type Committer interface {
	Commit(ctx context.Context, w Work) (Committed, error)
}
