package channel

import "github.com/millrace-go/millrace/internal/wire"

// MaxData is the most bytes that the body of a message may have: 16 MiB.
const MaxData = wire.MaxData

// MaxDelay is the longest delay of a message: ten years of 365 days.
const MaxDelay = wire.MaxDelay

// These errors say why a message can't be sent or handled, for errors.Is.
var (
	ErrAttribute  = wire.ErrAttribute  // an attribute is missing or invalid: an ID or a subject that the message chooses
	ErrRefused    = wire.ErrRefused    // the message's own Check refuses it
	ErrNotDelayed = wire.ErrNotDelayed // no message with that ID waits for its due time; see Sender.Cancel
	ErrBody       = wire.ErrBody       // the body doesn't fit its kind, or the message can't be encoded
)

// An Envelope is a message with its attributes, as middleware and [Handled] show it. It is a struct:
//
//	ID      string    // unique within its source; see the package comment
//	Source  string    // URI reference of the maker: "/web", or a value object
//	Kind    Kind      // CloudEvents calls it type
//	Subject string    // key of the value object that it is for or from; may be empty
//	Time    time.Time // when it was made, by the maker's clock
//	Due     time.Time // of a message that was sent with a delay: when it is to be handled
//	Since   time.Time // when it counts from, where its ID doesn't carry that time; see the laws of package values
//	Data    []byte    // the body, JSON; nil while DataRef stands for it
//
//	Correlation string // ID of the first message of the chain; empty in that message itself
//	Causation   string // ID of the message that brought this one about; empty in the first
//	TraceParent string // W3C Trace Context
//	Tenant      string // of WithTrace
//	Priority    string // of WithPriority: "high" or "low"; anything else is normal
//	ReplyTo     string // of a process: the step that waits for the answer
//	Sequence    uint64 // of an emission: how many messages its source has emitted, with this one; 0 unknown
//	DataRef     string // the blob that holds a large body
//	Retried     string // names an operator's retry from the poison queue, another name each time; empty: none
//
//	// The delivery's history, written by workers when a delivery ends without success.
//	Attempts    int       // how often a handler has returned an error
//	Hangs       int       // how many of these attempts were given up because the handler didn't end
//	HandBacks   int       // deliveries that ended for no fault of the message
//	Hops        int       // deliveries that count as nothing, because they came before the message was due
//	LastError   string    // shortened
//	FirstFailed time.Time // when the first attempt failed
//
//	Extensions map[string]jsontext.Value // attributes that the module doesn't know, kept as they came
type Envelope = wire.Envelope
