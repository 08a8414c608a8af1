package driver

import (
	"context"
	"iter"
	"time"
)

// A Store is one place that keeps queues, blobs and tables. Queue, Blobs and Table cost nothing and can't fail: a
// queue, container or table is created when it is first written to. A read of one that was never written to finds
// nothing, which is no error for Receive, Stats, List and Query.
type Store interface {
	Queue(name string) Queue
	Blobs(container string) Blobs
	Table(name string) Table

	// Props tells the driver's fixed properties.
	Props() Props

	// Committer does units of work atomically. It is nil where the engine can't.
	Committer() Committer

	// Listener tells when something has happened. It is nil where only polling finds out. It is always the same one.
	Listener() Listener

	// Finder finds messages by their keys. It is nil where the engine can't.
	Finder() Finder

	// Lister names the queues. It is nil where the engine can't.
	Lister() Lister

	// Peeker shows what waits in a queue. It is nil where the engine can't.
	Peeker() Peeker

	// Inspector tells what is wrong with the engine itself. It is nil where the engine can't, or has nothing to tell.
	Inspector() Inspector

	// PublicFiles puts files that browsers read from the engine. It is nil where the engine can't.
	PublicFiles() PublicFiles

	// Files keeps large files. It is nil where the engine can't.
	Files() Files

	// Requests lists what the store has asked of its engine since it was opened. It counts every request, repeated and
	// refused ones included, because those are billed too. It is nil where nothing is counted.
	Requests() []Requests

	// Close releases what the store holds. Calls under way end with an error or finish; later ones fail
	// with [ErrUnavailable]. Closing twice is harmless.
	Close() error
}

// Props are the fixed properties of a driver.
type Props struct {
	Driver       string        // short name for logs and metrics: "sqlite"
	Place        string        // which store it is, the same whoever opens it, without a secret; empty if unknown
	MaxMessage   int           // bytes in one message body
	MaxBlob      int           // bytes in one blob
	MaxRow       int           // bytes in one table row's data
	MaxReceive   int           // messages that one Receive returns at most
	PollInterval time.Duration // how often an idle consumer should look, if it uses the [Listener] where there is one
	Billed       bool          // each request costs money: better hold more than ask often
	Clock        Clock         // the store's time, where a failover may take acknowledged writes back; nil where nothing does
}

// A Clock tells a store's time as far as this process knows it, without a request. The time doesn't go back for what
// follows one another, even if the store has lost writes in between. So a number that is made of the time isn't given
// twice.
type Clock interface{ Now() time.Time }

// A Receipt proves the newest delivery of a message. It is opaque. A receipt that is malformed, or of another queue,
// is stale.
type Receipt string

// An ETag names one state of a blob or row. It is opaque. No two states of one key share an ETag, not even across a
// deletion and a new creation. The empty ETag means none.
type ETag string

// A Message is what a queue takes: a body, and perhaps a delay and a key.
type Message struct {
	Body  []byte        // any bytes, at most Props.MaxMessage, may be empty
	Delay time.Duration // hidden for so long; 0 is none, at most [MaxDelay]
	Key   string        // a [Finder] finds the message by it; it may be empty, and any number of messages may have it
}

// A Delivery is a message handed to one consumer for a time.
type Delivery struct {
	Body       []byte
	Receipt    Receipt
	Deliveries int       // how often the message has been handed out, this time included
	SentAt     time.Time // when the store took it, by the store's clock; a Rewrite doesn't change it
}

// Stats describe a queue at about this moment. A field the engine can't tell is -1. A driver may count up to a bound,
// which its package names; then the count of a deep queue means "at least".
type Stats struct {
	Ready    int64         // receivable now
	InFlight int64         // received, visibility not ended
	Delayed  int64         // sent or rewritten with a delay that has not ended
	Oldest   time.Duration // age of the oldest ready message since it was sent, 0 if there is none
}

// A Queue is a durable queue with competing consumers.
type Queue interface {
	// Send adds messages, one at least. On nil all are durable. A driver with a [Committer] adds all or none. Another
	// driver may have added some of them when it fails on the way, and the caller sends all of them again.
	Send(ctx context.Context, messages []Message) error

	// Receive takes up to max ready messages (1 to Props.MaxReceive) and hides them for visibility (at least
	// [MinVisibility]). It does not wait: without a ready message it returns an empty slice. The caller owns the bodies.
	// When it fails, messages may stay hidden until the visibility ends.
	Receive(ctx context.Context, max int, visibility time.Duration) ([]Delivery, error)

	// Extend hides a received message for visibility from now, and returns the receipt to use from then on. A visibility
	// of 0 hands the message back at once; the receipt works until somebody receives it. When the receipt is dead or the
	// message gone it returns [ErrReceiptStale]. A driver retries it only where the engine tells a repeat from the
	// first call: else an unknown outcome means ownership unknown.
	Extend(ctx context.Context, receipt Receipt, visibility time.Duration) (Receipt, error)

	// Rewrite ends a delivery: it replaces the body and makes the message receivable by anybody once delay has passed,
	// in one step. It returns [ErrReceiptStale] as Extend does.
	Rewrite(ctx context.Context, receipt Receipt, body []byte, delay time.Duration) error

	// Delete removes received messages, one at least. Dead receipts do not stop it, nor do receipts of messages already
	// deleted: a [StaleError] names them after all others were removed. After any other error an unknown part is
	// removed.
	Delete(ctx context.Context, receipts []Receipt) error

	// Stats counts the queue's messages.
	Stats(ctx context.Context) (Stats, error)
}

// A Condition guards a write. The zero Condition always holds.
type Condition struct {
	IfMatch  ETag // the present state has this ETag; otherwise [ErrPrecondition], also when there is none
	IfAbsent bool // there is nothing yet; otherwise [ErrExists]. Not together with IfMatch
}

// A Blob is a document and its state.
type Blob struct {
	Body []byte // the caller's
	ETag ETag
}

// A BlobInfo is a listing's entry for a blob.
type BlobInfo struct {
	Key      string
	ETag     ETag
	Size     int64
	Modified time.Time // by the store's clock
}

// Blobs is a container of documents under keys (1 to [MaxKey] bytes of UTF-8 without control characters).
type Blobs interface {
	// Get reads a blob. With ifNoneMatch set to the present ETag it returns [ErrNotModified] and no body. Without a blob
	// it returns [ErrNotFound].
	Get(ctx context.Context, key string, ifNoneMatch ETag) (Blob, error)

	// Put writes a blob, guarded by a condition, and returns the new ETag. Of concurrent Puts under the same IfMatch, or
	// with IfAbsent, exactly one succeeds.
	Put(ctx context.Context, key string, body []byte, cond Condition) (ETag, error)

	// Delete removes a blob, guarded by IfMatch; IfAbsent is not set. Without a blob it returns [ErrNotFound], whatever
	// IfMatch is.
	Delete(ctx context.Context, key string, cond Condition) error

	// List yields the blobs whose keys begin with prefix and are above after, in byte order. It reads in pages as the loop
	// goes on, so it is no snapshot; an error is yielded last and once. Both are compared, not checked.
	List(ctx context.Context, prefix, after string) iter.Seq2[BlobInfo, error]
}

// A Row is a small record under a partition and a row key.
type Row struct {
	Key  string
	Data []byte // the caller's
	ETag ETag
}

// A RowRange selects rows of a partition by key: From ≤ key < To, in byte order. An empty From or To is open. Limit
// bounds how many rows are yielded; 0 is no bound. The next page begins From the last key + "\x00".
type RowRange struct {
	From, To string
	Limit    int
}

// A Table keeps rows. The rows of one partition are ordered by key. Partitions and keys obey the rules for keys of
// [Blobs].
type Table interface {
	// Get reads a row. Without a row it returns [ErrNotFound].
	Get(ctx context.Context, partition, key string) (Row, error)

	// Put writes a row, guarded as Blobs.Put is.
	Put(ctx context.Context, partition, key string, data []byte, cond Condition) (ETag, error)

	// Delete removes a row, guarded as Blobs.Delete is.
	Delete(ctx context.Context, partition, key string, cond Condition) error

	// Query yields the rows of a range, as List does. From and To are compared, not checked.
	Query(ctx context.Context, partition string, r RowRange) iter.Seq2[Row, error]

	// PutBatch writes rows of one partition unconditionally, all or none: 1 to [MaxBatchRows] rows with up to
	// [MaxBatchBytes] of data, each key once.
	PutBatch(ctx context.Context, partition string, rows []RowPut) error

	// DeleteBatch deletes 1 to [MaxBatchRows] rows of one partition unconditionally, each key once. A row that isn't
	// there is no error. After an error an unknown part is deleted.
	DeleteBatch(ctx context.Context, partition string, keys []string) error
}

// RowPut is an unconditional write of one row.
type RowPut struct {
	Key  string
	Data []byte
}
