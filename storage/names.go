package storage

import "github.com/millrace-go/millrace/storage/driver"

// Types that callers hand in and get back. A driver uses the same types.
type (
	// Props are the fixed properties of a store's driver.
	//
	//	Driver       string        // short name for logs and metrics: "sqlite"
	//	Place        string        // which store it is, the same whoever opens it, without a secret; empty if unknown
	//	MaxMessage   int           // bytes in one message body
	//	MaxBlob      int           // bytes in one blob
	//	MaxRow       int           // bytes in one table row's data
	//	MaxReceive   int           // messages that one Receive returns at most
	//	PollInterval time.Duration // how often an idle consumer should look, if it uses the [Listener] where there is one
	//	Billed       bool          // each request costs money: better hold more than ask often
	//	Clock        Clock         // the store's time, where a failover may take back acknowledged writes, else nil
	Props = driver.Props

	// Fault is what an operator should know about the engine of a store. No text of it holds a secret.
	//
	//	Name string // what the fault is about: lower-case letters and hyphens, the same while its numbers change
	//	Text string // what is wrong, and what follows from it; one line that begins in lower case
	//	Fix  string // what to do about it; sentences
	//	Note bool   // it is good to know, and nobody has to do anything
	Fault = driver.Fault
	// A Receipt proves the newest delivery of a message. It is opaque. A malformed one is stale.
	Receipt = driver.Receipt
	// An ETag names one state of a blob or row. It is opaque, and never used twice for one key. The empty ETag means
	// none.
	ETag = driver.ETag
	// A Message is what a queue takes: a body, and perhaps a delay and a key.
	//
	//	Body  []byte        // any bytes, at most Props.MaxMessage, may be empty
	//	Delay time.Duration // hidden for so long; 0 is none, at most [MaxDelay]
	//	Key   string        // a [Finder] finds the message by it; it may be empty, and any number of messages may have it
	Message = driver.Message
	// A Delivery is a message handed to one consumer for a time.
	//
	//	Body       []byte
	//	Receipt    Receipt
	//	Deliveries int       // how often the message has been handed out, this time included
	//	SentAt     time.Time // when the store took it, by the store's clock; a Rewrite doesn't change it
	Delivery = driver.Delivery
	// A Peeked is a message that waits in a queue, as [Queue.Peek] shows it.
	//
	//	Body       []byte    // the caller's
	//	Receipt    Receipt   // deletes the message while it waits; "" where there is none
	//	Deliveries int       // how often the message has been handed out so far
	//	SentAt     time.Time // when the store took it, by the store's clock; a Rewrite doesn't change it
	//	ReadyAt    time.Time // when its delay ends, by the store's clock; zero: it is ready
	Peeked = driver.Peeked
	// Stats describe a queue at about this moment. A field that the engine can't tell is -1.
	//
	//	Ready    int64         // receivable now
	//	InFlight int64         // received, visibility not ended
	//	Delayed  int64         // sent or rewritten with a delay that has not ended
	//	Oldest   time.Duration // age of the oldest ready message since it was sent, 0 if there is none
	Stats = driver.Stats
	// A Condition guards a write. The zero Condition always holds.
	//
	//	IfMatch  ETag // the present state has this ETag; otherwise [ErrPrecondition], also when there is none
	//	IfAbsent bool // there is nothing yet; otherwise [ErrExists]. Not together with IfMatch
	Condition = driver.Condition
	// A Blob is a document and its state.
	//
	//	Body []byte // the caller's
	//	ETag ETag
	Blob = driver.Blob
	// A BlobInfo is a listing's entry for a blob.
	//
	//	Key      string
	//	ETag     ETag
	//	Size     int64
	//	Modified time.Time // by the store's clock
	BlobInfo = driver.BlobInfo
	// A Row is a small record under a partition and a row key.
	//
	//	Key  string
	//	Data []byte // the caller's
	//	ETag ETag
	Row = driver.Row
	// A RowRange selects rows of a partition by key.
	//
	//	From, To string
	//	Limit    int
	RowRange = driver.RowRange
	// RowPut is an unconditional write of one row.
	//
	//	Key  string
	//	Data []byte
	RowPut = driver.RowPut
	// Work is one unit of work; see [Store.Commit].
	//
	//	Rows   *Rows
	//	Write  *Write
	//	Send   []Send
	//	Delete []Claim
	Work = driver.Work
	// Rows puts rows of one partition, as part of a unit of work.
	//
	//	Table, Partition string
	//	Puts             []RowPut
	Rows = driver.Rows
	// A Write puts one blob, as part of a unit of work.
	//
	//	Container, Key string
	//	Body           []byte
	//	If             Condition
	Write = driver.Write
	// A Send adds one message to a queue, as part of a unit of work.
	//
	//	Queue   string
	//	Message Message
	Send = driver.Send
	// A Claim is a received message: its queue and the newest receipt.
	//
	//	Queue   string
	//	Receipt Receipt
	Claim = driver.Claim
	// Committed is the outcome of a unit of work.
	//
	//	ETag  ETag    // of the blob written, if any
	//	Stale []Claim // deletions that did nothing, because somebody else holds or has deleted the message
	Committed = driver.Committed
	// Requests counts requests of one sort.
	//
	//	Request
	//	Count     int64
	//	Throttled int64 // how many of them the engine refused because there were too many
	Requests = driver.Requests
	// A Request is a sort of request.
	//
	//	Op     string // "send", "receive", "put"; also what the driver does by itself, such as "create"
	//	Kind   string // "queue", "blob" or "table"
	//	Target string // the queue, container or table
	//	Class  string // how the engine bills it, such as "blob write"; empty where nothing is billed
	Request = driver.Request
	// Error tells which operation failed on which resource. Err wraps a kind and the cause.
	//
	//	Op       string // "receive", "put blob", "open"
	//	Resource string // "queue mails", "blob capacity/2026-12-24"
	//	Err      error
	Error = driver.Error
	// StaleError is the error of Queue.Delete when some receipts were dead and all others are deleted.
	//
	//	Queue    string
	//	Receipts []Receipt
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
