package keylock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	tableName = "turns"
	version   = 1
	maxBytes  = 16 << 10
	maxText   = 256 // bytes of each text
	maxNumber = 1 << 62
	maxAfter  = 10 * 365 * 24 * time.Hour // the longest delay of a message
)

// These errors say why a row can't be taken for a turn.
var (
	errUnreadable = fmt.Errorf("%w: the row in table %s is not a turn; it is replaced if nobody changes it", storage.ErrInvalid, tableName)
	errNewer      = fmt.Errorf("%w: a newer version has written the row in table %s: update this program", storage.ErrInvalid, tableName)
)

// A State is what a turn leaves for the next one. Its times are by the clocks of those who wrote them, for people.
type State struct {
	First    *First    `json:"first,omitempty"`    // the message that comes before all others
	Done     uint64    `json:"done,omitempty"`     // of a source: the sequence number up to which all is done, or in Past
	Past     []Span    `json:"past,omitempty"`     // of a source: what others went past, in ascending order
	Gap      *Gap      `json:"gap,omitempty"`      // of a source: what the next message waits for
	Halted   *Halted   `json:"halted,omitempty"`   // nothing runs until somebody releases the key
	Skipped  *Skipped  `json:"skipped,omitempty"`  // messages that went to the poison queue, or didn't come
	Released *Released `json:"released,omitempty"` // the last time
}

// A First is a message that has begun and isn't over.
type First struct {
	Message  string        `json:"message"`            // its ID
	Sequence uint64        `json:"sequence,omitempty"` // of it, where it is in order
	After    time.Duration `json:"after"`              // until it comes again
	Since    time.Time     `json:"since"`
}

// A Halted says why a key is halted.
type Halted struct {
	Message  string    `json:"message"`            // the ID of the message that went to the poison queue, or that waits
	Sequence uint64    `json:"sequence,omitempty"` // of a source: what a release goes past
	Why      string    `json:"why"`
	Since    time.Time `json:"since"`
}

// Skipped counts the messages that others went past.
type Skipped struct {
	Number int64     `json:"number"`
	Last   string    `json:"last"` // its ID
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

// A Released says who has released a key.
type Released struct {
	By  string    `json:"by"`
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at"`
}

// after reports that a release isn't the one before, which may be none.
func (r *Released) after(before *Released) bool {
	return r != nil && (before == nil || *r != *before)
}

// Skip counts a message that others go past.
func (s *State) Skip(message, why string) {
	n := int64(1)
	if s.Skipped != nil {
		n += s.Skipped.Number
	}
	s.Skipped = &Skipped{Number: n, Last: cut(message), Why: cut(why), At: time.Now().UTC()}
}

// Halt halts the key because of a message. Of a source, a release goes past that sequence number.
func (s *State) Halt(message, why string, sequence uint64) {
	s.Halted = &Halted{Message: cut(message), Sequence: sequence, Why: cut(why), Since: time.Now().UTC()}
}

// Wait lets all others wait for a message, which comes again after a delay. Of a source, a release goes past that
// sequence number.
func (s *State) Wait(message string, after time.Duration, sequence uint64) {
	s.First = &First{Message: cut(message), Sequence: sequence, After: min(max(0, after), maxAfter), Since: time.Now().UTC()}
}

// IsFirst reports that a message is the one that all others wait for.
func (s *State) IsFirst(message string) bool {
	return s.First != nil && s.First.Message == cut(message)
}

// IsHalt reports that a message is the one that has halted the key.
func (s *State) IsHalt(message string) bool {
	return s.Halted != nil && s.Halted.Message == cut(message)
}

// waitsAs reports that a key waits for the same in both states, as far as others could go past it.
func (s *State) waitsAs(next State) bool {
	same := s.Done == next.Done && (s.First == nil) == (next.First == nil)
	return same && (s.First == nil || s.First.Message == next.First.Message && s.First.Since.Equal(next.First.Since))
}

// cut shortens a text, so that a row stays small.
func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

// A document is a row's data, as JSON.
type document struct {
	Version int    `json:"version"`
	ID      string `json:"id,omitempty"` // of the turn; empty: nobody has it
	Holder  string `json:"holder"`       // the present or last one
	Fence   int64  `json:"fence"`
	Beat    int64  `json:"beat"`
	TTL     int64  `json:"ttl"` // milliseconds
	At      int64  `json:"at"`  // of the last write, by the writer's clock, in milliseconds
	State   State  `json:"state"`
}

func decode(data []byte) (document, error) {
	var d document
	if len(data) > maxBytes || json.Unmarshal(data, &d) != nil || d.Version < 1 {
		return document{}, errUnreadable
	}
	if d.Version > version {
		return document{}, errNewer
	}
	if d.Fence < 1 || d.Fence >= 1<<60 || !d.State.plausible() || d.TTL < minTTL.Milliseconds() || d.TTL > maxTTL.Milliseconds() {
		return document{}, errUnreadable
	}
	return d, nil
}

// plausible reports that a turn can have left a state. Under another one its key might wait for ever, or take events
// for done that are not.
func (s *State) plausible() bool {
	ok := s.Done <= maxNumber && len(s.Past) <= maxSpans
	for _, p := range s.Past {
		ok = ok && p.From <= p.To && p.To <= s.Done
	}
	var texts []string
	if s.First != nil {
		ok = ok && 0 <= s.First.After && s.First.After <= maxAfter
		texts = append(texts, s.First.Message)
	}
	if s.Gap != nil {
		texts = append(texts, s.Gap.Message)
	}
	if s.Halted != nil {
		texts = append(texts, s.Halted.Message, s.Halted.Why)
	}
	if s.Skipped != nil {
		texts = append(texts, s.Skipped.Last, s.Skipped.Why)
	}
	if s.Released != nil {
		texts = append(texts, s.Released.By, s.Released.Why)
	}
	return ok && !slices.ContainsFunc(texts, func(text string) bool { return len(text) > maxText })
}

// get reads a row. The error matches errUnreadable or errNewer, with the row's ETag, where it isn't a turn.
func (ts *Turns) get(ctx context.Context, key string) (document, storage.ETag, error) {
	ctx, cancel := storecall.Limit(ctx, ts.cfg.TTL/4)
	defer cancel()
	row, err := ts.table.Get(ctx, ts.group, key)
	if err != nil {
		return document{}, "", err
	}
	d, err := decode(row.Data)
	return d, row.ETag, err
}

func (ts *Turns) put(ctx context.Context, key string, d document, etag storage.ETag) (storage.ETag, error) {
	ctx, cancel := storecall.Limit(ctx, ts.cfg.TTL/4)
	defer cancel()
	d.Version, d.At = version, time.Now().UnixMilli()
	data, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return ts.table.Put(ctx, ts.group, key, data, storage.Condition{IfMatch: etag, IfAbsent: etag == ""})
}

// isTrouble reports that the outcome of a write is unknown, or that a read failed for a while.
func isTrouble(err error) bool {
	return err != nil && !storage.LostRace(err) && !errors.Is(err, storage.ErrNotFound) && !storecall.Permanent(err)
}
