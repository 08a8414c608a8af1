package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

// These errors say why a message can't be encoded, decoded or handled, for errors.Is. Package channel has those that
// its users meet, under the same names.
var (
	ErrMalformed   = errors.New("not a CloudEvents JSON object")
	ErrSpecVersion = errors.New("unsupported specversion")
	ErrAttribute   = errors.New("missing or invalid attribute")
	ErrContentType = errors.New("unsupported datacontenttype")
	ErrUnknownKind = errors.New("unknown kind")
	ErrBody        = errors.New("the body doesn't fit its kind")
	ErrDataLost    = errors.New("the claim-checked body is gone")
)

// MaxData is the most bytes that the body of a message may have.
const MaxData = 16 << 20

const (
	specVersion = "1.0"
	contentType = "application/json"
	maxLastErr  = 1024
	maxID       = 128
	maxReplyTo  = 1024

	maxWire = 2 * MaxData // of an envelope: base64 makes data a third larger, and the attributes come on top
)

// An Envelope is a message with its attributes. Users know it as channel.Envelope, whose comment lists the fields, too.
type Envelope struct {
	ID      string    // unique within its source; see package channel
	Source  string    // URI reference of the maker: "/web", or a value object
	Kind    Kind      // CloudEvents calls it type
	Subject string    // key of the value object that it is for or from; may be empty
	Time    time.Time // when it was made, by the maker's clock
	Due     time.Time // of a message that was sent with a delay: when it is to be handled
	Since   time.Time // when it counts from, where its ID doesn't carry that time; see [Envelope.Born]
	Data    []byte    // the body, JSON, in the form that EncodeBody gives it; nil while DataRef stands for it

	Correlation string // ID of the first message of the chain; empty in that message itself
	Causation   string // ID of the message that brought this one about; empty in the first
	TraceParent string // W3C Trace Context
	Tenant      string
	Priority    string // "high" or "low"; anything else is normal
	ReplyTo     string // where an answer is waited for; see channel.Envelope
	Sequence    uint64 // of an emission: how many messages its source has emitted, with this one; 0 unknown
	DataRef     string // where a claim-checked body lies
	Retried     string // names an operator's retry from the poison queue, another name each time; empty: none

	// The delivery's history, written by workers when a delivery ends without success.
	Attempts    int       // how often a handler has returned an error
	Hangs       int       // how many of these attempts were given up because the handler didn't end
	HandBacks   int       // deliveries that ended for no fault of the message
	Hops        int       // deliveries of a delayed message that count as nothing: before it was due, or before a handler had it
	LastError   string    // shortened
	FirstFailed time.Time // when the first attempt failed

	// Extension attributes that this package doesn't know, kept as they came.
	Extensions map[string]jsontext.Value
}

// wire is the JSON form. Its fields are in the order on the wire. Names are case-sensitive, as CloudEvents demands.
// Members without a field here are unknown extensions.
type wire struct {
	SpecVersion string                    `json:"specversion"`
	ID          string                    `json:"id"`
	Source      string                    `json:"source"`
	Type        Kind                      `json:"type"`
	Subject     string                    `json:"subject,omitzero"`
	Time        time.Time                 `json:"time,omitzero"`
	Due         time.Time                 `json:"due,omitzero"`
	Since       time.Time                 `json:"since,omitzero"`
	ContentType string                    `json:"datacontenttype,omitzero"`
	Correlation string                    `json:"correlationid,omitzero"`
	Causation   string                    `json:"causationid,omitzero"`
	TraceParent string                    `json:"traceparent,omitzero"`
	Tenant      string                    `json:"tenantid,omitzero"`
	Priority    string                    `json:"priorityclass,omitzero"`
	ReplyTo     string                    `json:"replyto,omitzero"`
	Sequence    string                    `json:"sequence,omitzero"`
	DataRef     string                    `json:"dataref,omitzero"`
	Retried     string                    `json:"retried,omitzero"`
	Attempts    int                       `json:"attempts,omitzero"`
	Hangs       int                       `json:"hangs,omitzero"`
	HandBacks   int                       `json:"handbacks,omitzero"`
	Hops        int                       `json:"hops,omitzero"`
	LastError   string                    `json:"lasterror,omitzero"`
	FirstFailed time.Time                 `json:"firstfailed,omitzero"`
	Extensions  map[string]jsontext.Value `json:",embed"`
	Data        jsontext.Value            `json:"data,omitzero"`
	DataBase64  *string                   `json:"data_base64,omitzero"`
}

// Decode reads an envelope from its JSON form and validates it. The error matches [ErrMalformed], [ErrSpecVersion],
// [ErrAttribute], [ErrContentType] or [storage.ErrTooLarge].
func Decode(body []byte) (Envelope, error) {
	if len(body) > maxWire {
		return Envelope{}, fmt.Errorf("%w: a message of %d bytes; at most %d", storage.ErrTooLarge, len(body), maxWire)
	}
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrMalformed, jsonform.RedactError[wire](err))
	}
	if w.SpecVersion != specVersion {
		return Envelope{}, fmt.Errorf("%w %s: want %q", ErrSpecVersion, storage.Quote(w.SpecVersion), specVersion)
	}
	e := Envelope{
		ID: w.ID, Source: w.Source, Kind: w.Type, Subject: w.Subject, Time: w.Time, Due: w.Due, Since: w.Since, Data: w.Data,
		Correlation: w.Correlation, Causation: w.Causation, TraceParent: w.TraceParent, Tenant: w.Tenant, Priority: w.Priority, ReplyTo: w.ReplyTo, DataRef: w.DataRef, Retried: w.Retried,
		Attempts: w.Attempts, Hangs: w.Hangs, HandBacks: w.HandBacks, Hops: w.Hops, LastError: w.LastError, FirstFailed: w.FirstFailed, Extensions: w.Extensions,
	}
	if w.ContentType != contentType { // the ordinary form needs no parsing
		if err := checkContentType(w.ContentType); err != nil {
			return Envelope{}, err
		}
	}
	if w.DataBase64 != nil {
		if w.Data != nil {
			return Envelope{}, fmt.Errorf("%w: both data and data_base64", ErrAttribute)
		}
		data, err := base64.StdEncoding.DecodeString(*w.DataBase64)
		if err != nil {
			return Envelope{}, fmt.Errorf("%w: data_base64: %w", ErrAttribute, err)
		}
		w.Data = data
		if err := w.Data.Format(); err != nil {
			return Envelope{}, fmt.Errorf("%w: data_base64: want JSON: %w", ErrAttribute, jsonform.RedactError[wire](err))
		}
		if len(w.Data) >= deep {
			if _, err := json.Marshal([]jsontext.Value{w.Data}); err != nil { // the envelope adds one level of nesting
				return Envelope{}, fmt.Errorf("%w: data_base64: %w", ErrAttribute, jsonform.RedactError[wire](err))
			}
		}
		e.Data = w.Data
	} else if !plain(w.Data) {
		if err := w.Data.Format(); err != nil {
			return Envelope{}, fmt.Errorf("%w: data: %w", ErrMalformed, jsonform.RedactError[wire](err))
		}
		e.Data = w.Data
	}
	if w.Sequence != "" {
		if n, err := strconv.ParseUint(w.Sequence, 10, 64); err == nil { // else unknown: it is from elsewhere
			e.Sequence = n
		}
	}
	maps.DeleteFunc(e.Extensions, func(_ string, v jsontext.Value) bool { return v.Kind() == 'n' }) // null is unset
	if err := e.check(); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// plain reports that JSON certainly has the form that EncodeBody gives it: no space between tokens, nothing escaped.
// The same body must have the same bytes wherever it comes from, because the bytes decide whether two messages with one
// ID are the same.
func plain(data []byte) bool {
	quoted := false
	for _, c := range data {
		switch c {
		case '\\':
			return false
		case '"':
			quoted = !quoted
		case ' ', '\t', '\n', '\r':
			if !quoted {
				return false
			}
		}
	}
	return true
}

// Content returns a digest of kind and data. It shows whether messages with one ID are the same message. The envelope
// must have its data, so read a claim-checked body first.
func (e *Envelope) Content() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write([]byte(e.Kind))
	h.Write([]byte{0})
	h.Write(e.Data)
	h.Sum(sum[:0])
	return sum
}

// Follow marks the envelope as brought about by another message: it gets that message's correlation, trace, tenant
// and priority, and its reply address, unless it has one of its own.
func (e *Envelope) Follow(parent *Envelope) {
	if e.ReplyTo == "" {
		e.ReplyTo = parent.ReplyTo
	}
	e.Causation, e.TraceParent, e.Tenant, e.Priority = parent.ID, parent.TraceParent, parent.Tenant, parent.Priority
	e.Correlation = parent.Correlation
	if e.Correlation == "" {
		e.Correlation = parent.ID
	}
}

// check enforces the rules that hold both for encoding and for decoding.
func (e *Envelope) check() error {
	if len(e.Data) > MaxData {
		return fmt.Errorf("%w: a body of %d bytes; at most %d", storage.ErrTooLarge, len(e.Data), MaxData)
	}
	if err := CheckID(e.ID); err != nil {
		return fmt.Errorf("%w: id: %w", ErrAttribute, err)
	}
	if err := CheckSource(e.Source); err != nil {
		return fmt.Errorf("%w: source: %w", ErrAttribute, err)
	}
	if err := e.Kind.Check(); err != nil {
		return fmt.Errorf("%w: type: %w", ErrAttribute, err)
	}
	if e.Subject != "" {
		if err := storage.CheckKey(e.Subject); err != nil {
			return fmt.Errorf("%w: subject: %w", ErrAttribute, err)
		}
	}
	if err := checkText(e.ReplyTo, maxReplyTo); err != nil {
		return fmt.Errorf("%w: replyto %w", ErrAttribute, err)
	}
	if err := checkText(e.Retried, maxID); err != nil {
		return fmt.Errorf("%w: retried %w", ErrAttribute, err)
	}
	for _, t := range []time.Time{e.Time, e.Due, e.Since, e.FirstFailed} {
		if y := t.UTC().Year(); y < 0 || y > 9999 {
			return fmt.Errorf("%w: a time in the year %d: want 0 to 9999", ErrAttribute, y)
		}
	}
	if e.Attempts < 0 || e.Hangs < 0 || e.HandBacks < 0 || e.Hops < 0 {
		return fmt.Errorf("%w: attempts, hangs, handbacks and hops: want no negative number", ErrAttribute)
	}
	if e.DataRef != "" {
		if e.Data != nil {
			return fmt.Errorf("%w: both data and dataref", ErrAttribute)
		}
		if _, err := parseDataRef(e.DataRef); err != nil {
			return fmt.Errorf("%w: dataref: %w", ErrAttribute, err)
		}
	}
	if len(e.Extensions) > 0 {
		return checkExtensions(e.Extensions)
	}
	return nil
}

// CheckID refuses an ID that an envelope can't hold.
func CheckID(id string) error {
	if id == "" {
		return errors.New("the ID is empty")
	}
	if err := checkText(id, maxID); err != nil {
		return fmt.Errorf("ID %w", err)
	}
	return nil
}

// checkText refuses text that is too long, or has control characters.
func checkText(s string, most int) error {
	if len(s) > most || !utf8.ValidString(s) {
		return fmt.Errorf("%s: want at most %d bytes of valid UTF-8", storage.Quote(s), most)
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return fmt.Errorf("%s: control characters are not allowed", storage.Quote(s))
		}
	}
	return nil
}

// CheckSource refuses a source that an envelope can't hold.
func CheckSource(s string) error {
	if s == "" || len(s) > 1024 || !utf8.ValidString(s) {
		return errors.New("want 1 to 1024 bytes of valid UTF-8")
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '/' || c == '-' || c == '_' || c == '.') {
			_, err := url.Parse(s) // a plain path needs no parsing
			if err == nil && strings.Contains(s, " ") {
				err = errors.New("it has a space")
			}
			if err != nil {
				return fmt.Errorf("want a URI reference: %w", err)
			}
			break
		}
	}
	return nil
}

// reserved holds the names of the members that are not unknown extensions.
var reserved = func() map[string]bool {
	names := map[string]bool{"data_base64": true}
	for t, i := reflect.TypeFor[wire](), 0; i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}()

// checkExtensions enforces CloudEvents' naming convention and type system: lower-case letters and digits in names;
// strings, numbers and booleans as values.
func checkExtensions(x map[string]jsontext.Value) error {
	for _, name := range slices.Sorted(maps.Keys(x)) {
		ok := name != "" && !reserved[name]
		for i := 0; i < len(name) && ok; i++ {
			c := name[i]
			ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		}
		switch x[name].Kind() {
		case '"', '0', 't', 'f':
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("%w: extension %s: want lower-case letters and digits, no name of an attribute, and a string, number or boolean", ErrAttribute, storage.Quote(name))
		}
	}
	return nil
}

func checkContentType(s string) error {
	if s == "" { // CloudEvents: JSON is implied
		return nil
	}
	t, _, err := mime.ParseMediaType(s)
	if err != nil || t != contentType && !strings.HasSuffix(t, "+json") {
		return fmt.Errorf("%w %s: want %s", ErrContentType, storage.Quote(s), contentType)
	}
	return nil
}

// shorten cuts text to the limited room of the history. It replaces control characters, which would take six bytes
// each, by spaces.
func shorten(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
