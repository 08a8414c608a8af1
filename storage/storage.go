package storage

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

// A Store is one place that keeps queues, blobs and tables. Queue, Blobs and Table cost nothing and
// can't fail: what they name is created when first written to, and a name that [CheckName] refuses is
// reported by the first call. Reading what was never written finds nothing, which is no error for
// Receive, Stats, List and Query.
type Store interface {
	Queue(name string) Queue
	Blobs(container string) Blobs
	Table(name string) Table

	// Props tells the driver's fixed properties.
	Props() Props

	// Close releases what the store holds. Calls under way end with an error or finish; later ones fail
	// with [ErrUnavailable]. Closing twice is harmless.
	Close() error
}

// Props are the fixed properties of a driver.
type Props struct {
	Driver        string        // short name for logs and metrics: "sqlite"
	MaxMessage    int           // bytes in one message body
	MaxBlob       int           // bytes in one blob
	MaxRow        int           // bytes in one table row's data
	MaxReceive    int           // messages that one Receive returns at most
	PollInterval  time.Duration // how often an idle consumer should look, given that [Waker] is used where there is one
	QuietInterval time.Duration // likewise, while its [Waker] rings for all that senders tell, late at most; 0: it doesn't vouch for that
	Atomic        bool          // Commit is all or nothing
	Billed        bool          // each request costs money: better hold more than ask often
}

// A Receipt proves the newest delivery of a message. It is opaque. One that is malformed, or of another queue,
// is stale.
type Receipt string

// An ETag names one state of a blob or row. It is opaque; no two states of one key share one, also not
// across deletion and new creation. The empty ETag means none.
type ETag string

// A Message is what a queue takes.
type Message struct {
	Body  []byte        // any bytes, at most Props.MaxMessage, may be empty
	Delay time.Duration // hidden for so long; 0 is none, at most [MaxDelay]
}

// A Delivery is a message handed to one consumer for a time.
type Delivery struct {
	Body       []byte
	Receipt    Receipt
	Deliveries int       // how often the message has been handed out, this time included
	SentAt     time.Time // when the store took it, by the store's clock; a Rewrite doesn't change it
}

// Stats describe a queue at about this moment. A field the engine can't tell is -1.
type Stats struct {
	Ready    int64         // receivable now
	InFlight int64         // received, visibility not ended
	Delayed  int64         // sent or rewritten with a delay that has not ended
	Oldest   time.Duration // age of the oldest ready message since it was sent, 0 if there is none
}

// A Queue is a durable queue with competing consumers.
type Queue interface {
	// Send adds messages. On nil all are durable. Drivers that say so in Props.Atomic add all or none;
	// others may have added any when they fail on the way, and the caller sends all of them again.
	// No messages is no effect.
	Send(ctx context.Context, messages []Message) error

	// Receive takes up to max ready messages (at least 1; more than Props.MaxReceive means that) and
	// hides them for visibility (at least [MinVisibility]). It does not wait: none is an empty slice.
	// The caller owns the bodies. When it fails, messages may stay hidden until the visibility ends.
	Receive(ctx context.Context, max int, visibility time.Duration) ([]Delivery, error)

	// Extend hides a received message for visibility from now, and returns the receipt to use from then
	// on. A visibility of 0 hands the message back at once; the receipt works until somebody receives it. [ErrReceiptStale] when the receipt is dead or
	// the message gone. It is never retried by the driver: an unknown outcome means ownership unknown.
	Extend(ctx context.Context, receipt Receipt, visibility time.Duration) (Receipt, error)

	// Rewrite ends a delivery: it replaces the body and makes the message receivable by anybody once
	// delay has passed, in one step. [ErrReceiptStale] as for Extend.
	Rewrite(ctx context.Context, receipt Receipt, body []byte, delay time.Duration) error

	// Delete removes received messages. Dead receipts, those of messages already deleted included, do not
	// stop it: a [StaleError] names them after all others were removed. After any other error an unknown
	// part is removed.
	Delete(ctx context.Context, receipts []Receipt) error

	// Stats counts.
	Stats(ctx context.Context) (Stats, error)
}

// A Condition guards a write. The zero Condition always holds.
type Condition struct {
	IfMatch  ETag // the present state has this ETag; else [ErrPrecondition], also when there is none
	IfAbsent bool // there is nothing yet; else [ErrExists]. Not together with IfMatch
}

// A Blob is a document and its state.
type Blob struct {
	Body []byte // the caller's
	ETag ETag
}

// A BlobInfo is what a listing tells of a blob.
type BlobInfo struct {
	Key      string
	ETag     ETag
	Size     int64
	Modified time.Time // by the store's clock
}

// Blobs is a container of documents under keys (see [CheckKey]).
type Blobs interface {
	// Get reads. With ifNoneMatch set to the present ETag it returns [ErrNotModified] and no body.
	// [ErrNotFound] when there is none.
	Get(ctx context.Context, key string, ifNoneMatch ETag) (Blob, error)

	// Put writes, guarded by a condition, and returns the new ETag. Of concurrent Puts under the same
	// IfMatch, or with IfAbsent, exactly one succeeds.
	Put(ctx context.Context, key string, body []byte, cond Condition) (ETag, error)

	// Delete removes, guarded by IfMatch (IfAbsent makes no sense: [ErrInvalid]). [ErrNotFound] when there is
	// none, whatever IfMatch is.
	Delete(ctx context.Context, key string, cond Condition) error

	// List yields the blobs whose keys begin with prefix, in byte order. It reads in pages as the loop
	// goes on, so it is no snapshot; an error is yielded last and once.
	List(ctx context.Context, prefix string) iter.Seq2[BlobInfo, error]
}

// A Row is a small record under a partition and a row key.
type Row struct {
	Key  string
	Data []byte // the caller's
	ETag ETag
}

// A RowRange selects rows of a partition by key: From ≤ key < To, in byte order. An empty From or To is
// open. Limit bounds how many are yielded, 0 is no bound. The next page begins From the last key + "\x00".
type RowRange struct {
	From, To string
	Limit    int
}

// A Table keeps rows; the rows of one partition are ordered by key (see [CheckKey] for both).
type Table interface {
	// Get reads a row. [ErrNotFound] when there is none.
	Get(ctx context.Context, partition, key string) (Row, error)

	// Put writes a row, guarded as Blobs.Put is.
	Put(ctx context.Context, partition, key string, data []byte, cond Condition) (ETag, error)

	// Delete removes a row, guarded as Blobs.Delete is.
	Delete(ctx context.Context, partition, key string, cond Condition) error

	// Query yields the rows of a range, as List does. From and To are compared, not checked.
	Query(ctx context.Context, partition string, r RowRange) iter.Seq2[Row, error]
}

// RowPut is an unconditional write of one row.
type RowPut struct {
	Key  string
	Data []byte
}

// A BatchTable can write rows of one partition together: all or none. Optional; see [PutRows].
type BatchTable interface {
	// PutBatch writes up to [MaxBatchRows] rows of one partition with up to [MaxBatchBytes] of data; a key
	// may occur once. Anything else is [ErrInvalid].
	PutBatch(ctx context.Context, partition string, rows []RowPut) error
}

// A BatchDeleter can delete rows of one partition together. Optional, for a table; see [DeleteRows].
type BatchDeleter interface {
	// DeleteBatch deletes up to [MaxBatchRows] rows of one partition, unconditionally; a key may occur once. Anything else
	// is [ErrInvalid]. A row that isn't there is no error. After an error an unknown part is deleted.
	DeleteBatch(ctx context.Context, partition string, keys []string) error
}

// A Waker can tell that a queue may have something, so that idle consumers may poll slowly and still pick
// up at once. Optional; find it with [As]. A ring is a hint: it may come late, twice, for nothing, or
// (rarely) not at all.
type Waker interface {
	// Wake returns a channel of capacity 1 that gets a value when the queue may have become receivable:
	// a send, an end of delay or visibility; and perhaps once at the beginning. Rings that nobody takes are
	// folded into one. stop ends it.
	Wake(queue string) (ring <-chan struct{}, stop func())
}

// An Awaiter can claim messages for a consumer as they are written, which saves the ring, and the receive that would follow.
// Optional for a [Queue].
type Awaiter interface {
	// Await claims messages for visibility, both as Receive does, as they are sent without a delay through this
	// store. When a commit is to bring some, or has, ready is closed and no more come. What is in the queue already, becomes
	// receivable by time, or is sent through another store it never brings. take ends it, must be called, and returns
	// what comes, none if that is nothing. It waits for a transaction under way; if ctx ends before it knows, its
	// messages stay hidden until the visibility ends. Bad arguments bring nothing; Receive tells what is bad.
	Await(max int, visibility time.Duration) (ready <-chan struct{}, take func(ctx context.Context) Handed)
}

// Handed is what an [Awaiter] claims. It can be told before it is durable, so that it can be decoded meanwhile: none of it is
// the caller's before Over is closed and Committed true.
type Handed struct {
	Deliveries []Delivery
	Since      time.Time // when the visibility begins, or somewhat before, by this process's clock

	// Set where there are deliveries.
	Over      <-chan struct{} // closed when the commit is over. Who doesn't wait for that may leave them hidden until the visibility ends.
	Committed func() bool     // once Over is closed: whether it has brought them; if not, nothing was claimed, as far as this store knows
}

// As finds an optional ability of a store, looking through decorators that have an Unwrap() Store method.
// The outermost one counts. A decorator that must see every call implements the abilities itself, or
// has no Unwrap.
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = u.Unwrap()
	}
	var none T
	return none, false
}

// PutRows writes rows of one partition, in batches where the table can. It stops at the first failure;
// repeating it is harmless.
func PutRows(ctx context.Context, t Table, partition string, rows []RowPut) error {
	if b, ok := t.(BatchTable); ok {
		for len(rows) > 0 {
			n, bytes := 1, len(rows[0].Data)
			for n < min(len(rows), MaxBatchRows) && bytes+len(rows[n].Data) <= MaxBatchBytes {
				bytes += len(rows[n].Data)
				n++
			}
			if err := b.PutBatch(ctx, partition, rows[:n]); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	}
	for _, r := range rows {
		if _, err := t.Put(ctx, partition, r.Key, r.Data, Condition{}); err != nil {
			return err
		}
	}
	return nil
}

// DeleteRows deletes rows of one partition, in batches where the table can. Rows that aren't there are no error. It stops
// at the first failure; repeating it is harmless.
func DeleteRows(ctx context.Context, t Table, partition string, keys []string) error {
	if b, ok := t.(BatchDeleter); ok {
		for some := range slices.Chunk(keys, MaxBatchRows) {
			if err := b.DeleteBatch(ctx, partition, some); err != nil {
				return err
			}
		}
		return nil
	}
	for _, key := range keys {
		if err := t.Delete(ctx, partition, key, Condition{}); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}
