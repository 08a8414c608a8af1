package storage

import "github.com/millrace-go/millrace/storage/driver"

// Types that callers hand in and get back. A driver uses the same types.
type (
	// Props are the fixed properties of a store's driver.
	Props = driver.Props
	// A Receipt proves the newest delivery of a message. It is opaque. A malformed one is stale.
	Receipt = driver.Receipt
	// An ETag names one state of a blob or row. It is opaque, and never used twice for one key. The empty ETag means none.
	ETag = driver.ETag
	// A Message is what a queue takes: a body, and perhaps a delay and a key.
	Message = driver.Message
	// A Delivery is a message handed to one consumer for a time.
	Delivery = driver.Delivery
	// Stats describe a queue at about this moment. A field that the engine can't tell is -1.
	Stats = driver.Stats
	// A Condition guards a write. The zero Condition always holds.
	Condition = driver.Condition
	// A Blob is a document and its state.
	Blob = driver.Blob
	// A BlobInfo is a listing's entry for a blob.
	BlobInfo = driver.BlobInfo
	// A Row is a small record under a partition and a row key.
	Row = driver.Row
	// A RowRange selects rows of a partition by key.
	RowRange = driver.RowRange
	// RowPut is an unconditional write of one row.
	RowPut = driver.RowPut
	// Work is one unit of work; see [Store.Commit].
	Work = driver.Work
	// Rows puts rows of one partition, as part of a unit of work.
	Rows = driver.Rows
	// A Write puts one blob, as part of a unit of work.
	Write = driver.Write
	// A Send adds one message to a queue, as part of a unit of work.
	Send = driver.Send
	// A Claim is a received message: its queue and the newest receipt.
	Claim = driver.Claim
	// Committed is the outcome of a unit of work.
	Committed = driver.Committed
	// Requests counts requests of one sort.
	Requests = driver.Requests
	// A Request is a sort of request.
	Request = driver.Request
	// Error tells which operation failed on which resource. Err wraps a kind and the cause.
	Error = driver.Error
	// StaleError is the error of Queue.Delete when some receipts were dead and all others are deleted.
	StaleError = driver.StaleError
)

// Kinds of failure, for errors.Is. An error wraps one of them and its own cause, so that errors.As still reaches a
// vendor's error.
var (
	ErrNotFound     = driver.ErrNotFound
	ErrNotModified  = driver.ErrNotModified
	ErrExists       = driver.ErrExists
	ErrPrecondition = driver.ErrPrecondition
	ErrReceiptStale = driver.ErrReceiptStale
	ErrTooLarge     = driver.ErrTooLarge
	ErrInvalid      = driver.ErrInvalid
	ErrThrottled    = driver.ErrThrottled
	ErrUnavailable  = driver.ErrUnavailable
	ErrUnsupported  = driver.ErrUnsupported
	ErrLeased       = driver.ErrLeased
	ErrPartial      = driver.ErrPartial
)

// Limits that hold for every driver, so that a program that runs on one runs on all. They are the narrowest of the
// engines foreseen (Azure Storage's, where nothing else is said).
const (
	MinVisibility = driver.MinVisibility
	MaxVisibility = driver.MaxVisibility
	MaxDelay      = driver.MaxDelay
	MaxKey        = driver.MaxKey // bytes
	MaxBatchRows  = driver.MaxBatchRows
	MaxBatchBytes = driver.MaxBatchBytes
)

// LostRace reports that a guarded write failed because somebody else wrote first: load again and repeat.
func LostRace(err error) bool { return driver.LostRace(err) }

// Quote makes untrusted text fit for an error or a log line: quoted, escaped, shortened.
func Quote(s string) string { return driver.Quote(s) }
