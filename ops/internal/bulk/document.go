package bulk

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "bulk"
	acts      = "act/"           // documents, by the ID of their act
	chosen    = "chosen/"        // what stood in the queues when an act was asked for; there as long as the act goes on
	shown     = "shown/"         // what stood there when a person was shown what an act would do: see Show
	callTime  = 10 * time.Second // for one call of the store
	mostFault = 10               // faults that an act keeps
)

// The verbs of acts.
const (
	Retry   = "retry"
	Discard = "discard"
)

// A State says what an act shall do.
type State string

// The states. An act has ended when it has a time of its end, and not before.
const (
	Running   State = "running"
	Paused    State = "paused"
	Cancelled State = "cancelled"
	Done      State = "done"
)

// A Filter says which entries are meant. An empty member means any.
type Filter struct {
	Queue  string    `json:"queue,omitempty"`
	Kind   string    `json:"kind,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Print  string    `json:"fingerprint,omitempty"` // of the error
	Before time.Time `json:"before,omitzero"`       // the last failure was no later, by the clocks of workers
}

// An Act is a bulk act: what was asked for, and how far the act has come.
type Act struct {
	ID     string    `json:"id"` // from the audit log
	Verb   string    `json:"verb"`
	Filter Filter    `json:"filter"`
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
	Asked  time.Time `json:"asked"`
	Queues []string  `json:"queues"` // those that had messages then
	Chosen int       `json:"chosen"` // entries that stood in these queues then; the filter leaves some of them out
	Looked int       `json:"looked"` // how many of these were looked at
	Done   int       `json:"done"`   // sent back, or discarded
	Gone   int       `json:"gone"`   // somebody else was quicker
	Failed int       `json:"failed"` // still in the poison queue
	Faults []string  `json:"faults"` // the first ones
	Rate   float64   `json:"rate"`   // messages a second, lately
	Cursor Cursor    `json:"cursor"` // the last entry that was looked at
	State  State     `json:"state"`
	Set    time.Time `json:"set"` // when somebody has set the state
	SetBy  string    `json:"set_by"`
	SetWhy string    `json:"set_why"`
	Driver string    `json:"driver"` // the process that does the act; "" if none does
	Driven time.Time `json:"driven"` // when the driver has written last, by its clock
	Ended  time.Time `json:"ended,omitzero"`
}

// A Cursor is a place in the poison queues, in the order of queues and keys.
type Cursor struct {
	Queue string `json:"queue"`
	Key   string `json:"key"`
}

// Over reports that nothing becomes of the act any more.
func (a Act) Over() bool { return !a.Ended.IsZero() }

// deadAfter is how long a driver says nothing that is taken for dead by people: several times as long as other drivers
// wait for it. Clocks of processes differ, and only people are told.
const deadAfter = time.Minute

// Died reports that the driver of the act has most likely died, and that no other driver has come.
func (a Act) Died() bool {
	return !a.Over() && a.Driver != "" && !a.Driven.IsZero() && time.Since(a.Driven) > deadAfter
}

// StandsStill reports that there is something to do, and that nobody has done anything for so long: the driver has most
// likely died, or no driver has ever come.
func (a Act) StandsStill() bool {
	last := a.Asked
	for _, t := range []time.Time{a.Set, a.Driven} {
		if t.After(last) {
			last = t
		}
	}
	return !a.Over() && a.State != Paused && time.Since(last) > deadAfter
}

// Result says in a sentence how far the act has come.
func (a Act) Result() string {
	did := "Sent back"
	if a.Verb == Discard {
		did = "Discarded"
	}
	text := fmt.Sprintf("%s %d of %d messages", did, a.Done, a.Done+a.Gone+a.Failed)
	if a.Gone > 0 {
		text += fmt.Sprintf("; %d were removed by somebody else", a.Gone)
	}
	if a.Failed > 0 {
		text += fmt.Sprintf("; %d are still in the poison queue", a.Failed)
	}
	if a.State == Cancelled {
		text += "; then it was cancelled by " + a.SetBy
	}
	return text + "."
}

// A document is the blob of an act.
type document struct {
	Act
	Page  []item        `json:"page,omitempty"`  // entries that are being settled
	Right string        `json:"right,omitempty"` // the driver's, at random
	TTL   time.Duration `json:"ttl,omitempty"`   // after which a driver counts as dead
}

// An item is an entry of a page.
type item struct {
	Queue string       `json:"q"`
	Key   string       `json:"k"`
	ETag  storage.ETag `json:"e"`
}

// idle reports that no driver has anything to do.
func (d *document) idle() bool { return d.Over() || d.State == Paused && len(d.Page) == 0 }

// fail counts an entry that could not be settled.
func (d *document) fail(queue, name string, err error) {
	d.Failed++
	d.fault(queue, name, err)
}

func (d *document) fault(queue, name string, err error) {
	if len(d.Faults) < mostFault { // a copy: the slice may be another document's
		d.Faults = append(slices.Clone(d.Faults), fmt.Sprintf("%s %s: %v", queue, name, err))
	}
}

func decode(body []byte) (d document, err error) {
	if json.Unmarshal(body, &d) != nil || audit.CheckID(d.ID) != nil || d.Verb != Retry && d.Verb != Discard ||
		!slices.Contains([]State{Running, Paused, Cancelled, Done}, d.State) || d.TTL < 0 {
		return document{}, fmt.Errorf("%w: a blob in container %s can't be read as a bulk act", storage.ErrInvalid, container)
	}
	return d, nil
}

func encode(d document) ([]byte, error) { return json.Marshal(d) }

type sighting = agree.Sighting[document]

func documentOf(s *storage.Store, id string) agree.Document[document] {
	return agree.Document[document]{Blobs: s.Blobs(container), Key: acts + id, Limit: callTime, Decode: decode, Encode: encode}
}

// read brings a sighting up to date. The error of an act that isn't there matches [storage.ErrNotFound].
func read(ctx context.Context, s *storage.Store, id string, seen *sighting) error {
	if err := audit.CheckID(id); err != nil {
		return err
	}
	err := documentOf(s, id).Read(ctx, seen)
	if err == nil && seen.ETag == "" {
		err = fmt.Errorf("%w: there is no bulk act %s", storage.ErrNotFound, id)
	}
	return err
}

// A set are the entries that stood in the queues when an act was asked for: the first bytes of the digest of each,
// which has its ETag. So an entry that was put again since then is none of them.
type set map[uint64]bool

func digest(queue, key string, etag storage.ETag) uint64 {
	sum := sha256.Sum256([]byte(queue + "/" + key + "\x00" + string(etag)))
	return binary.BigEndian.Uint64(sum[:])
}

// standing is the set of entries that stand in queues now, as bytes.
func standing(ctx context.Context, s *storage.Store, queues []string) (body []byte, err error) {
	for _, q := range queues {
		for e, err := range poison.States(ctx, s, q) {
			if err != nil {
				return nil, err
			}
			body = binary.BigEndian.AppendUint64(body, digest(q, e.Key, e.ETag))
		}
	}
	return body, nil
}

// shownAs is the key of what was shown to a person for an act of this filter.
func (f Filter) shownAs(id string) string {
	text, _ := json.Marshal(f) // of texts and a time
	sum := sha256.Sum256(text)
	return shown + id + "/" + hex.EncodeToString(sum[:8])
}

// shownSet is the set that was shown, as bytes. The error matches [storage.ErrNotFound] if none was.
func shownSet(ctx context.Context, s *storage.Store, id string, f Filter) ([]byte, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := s.Blobs(container).Get(ctx, f.shownAs(id), "")
	return blob.Body, err
}

// readSet reads the set of an act.
func readSet(ctx context.Context, s *storage.Store, id string) (set, error) {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	blob, err := s.Blobs(container).Get(ctx, chosen+id, "")
	if err != nil {
		return nil, err
	}
	all := set{}
	for b := blob.Body; len(b) >= 8; b = b[8:] {
		all[binary.BigEndian.Uint64(b)] = true
	}
	return all, nil
}

// dropSet ends that the act counts as going on.
func dropSet(ctx context.Context, s *storage.Store, id string) error {
	ctx, cancel := storecall.Limit(ctx, callTime)
	defer cancel()
	if err := s.Blobs(container).Delete(ctx, chosen+id, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}
