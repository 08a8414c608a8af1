package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/storage"
)

const (
	table    = "audit"
	day      = "2006-01-02"     // a partition, in UTC
	ended    = "~"              // is behind the key of the row that says how an act ended
	oldest   = 24 * time.Hour   // of an ID, when its act begins
	ahead    = 15 * time.Minute // of this machine's clock
	mostText = 1000             // bytes of each text of an entry
)

// ErrOtherAct is the error of an ID under which something else was meant before.
var ErrOtherAct = errors.New("this ID belongs to another act")

// An Entry is an act: what somebody meant to do, and how it ended.
type Entry struct {
	ID   string    `json:"id"`             // from [NewID]
	Time time.Time `json:"time"`           // when it was begun
	Who  string    `json:"who"`            // the login, or the user of the machine
	Said bool      `json:"said,omitempty"` // the caller said who it is, and nothing else shows that
	From string    `json:"from,omitempty"` // an address, or the name of a machine
	Act  string    `json:"act"`            // its noun and verb: "poison retry"
	On   string    `json:"on,omitempty"`   // what it was about, as the command line would name it
	Why  string    `json:"why,omitempty"`

	Ended  time.Time `json:"ended,omitzero"`   // zero: it is under way, or nobody knows its result
	Result string    `json:"result,omitempty"` // a word of the act, such as "sent back: 12"
	Failed bool      `json:"failed,omitempty"` // Result is an error
	Fault  string    `json:"fault,omitempty"`  // whose fault the error is, as the caller tells faults apart

	Digest string `json:"-"` // of all that was asked for. The row has it, and nobody is shown it
	Answer string `json:"-"` // JSON that the caller answers again under the ID; it comes with the end. "": there is none
	Again  bool   `json:"-"` // from Begin: it was begun before
}

// Done reports that the result of the act is known.
func (e Entry) Done() bool { return !e.Ended.IsZero() }

// NewID returns the ID of a new act. A form has it before the act begins. The ID has the time in front, so that acts
// are found in the order of their IDs.
func NewID() string {
	id := uuid.New()
	// uuid.NewV7 would go on from the highest time so far, also after a clock that was ahead was set right.
	binary.BigEndian.PutUint64(id[:8], uint64(time.Now().UnixMilli())<<16|uint64(binary.BigEndian.Uint16(id[6:8])))
	id[6] = id[6]&0x0f | 0x70 // version 7
	return id.String()
}

// CheckID returns what is wrong with an ID that somebody else has made: a form or a program.
func CheckID(id string) error {
	_, err := timeOf(id)
	return err
}

// timeOf returns the time in an ID.
func timeOf(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, fmt.Errorf("%w: the ID of an act is a UUID of version 7 in small letters, not %s", storage.ErrInvalid, storage.Quote(id))
	}
	seconds, nanos := u.Time().UnixTime()
	return time.Unix(seconds, nanos).UTC().Truncate(time.Millisecond), nil
}

// A document is what a row has.
type document struct {
	Entry
	Digest string          `json:"digest,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// A Log is the audit log of a store. Its methods may be called concurrently.
type Log struct {
	rows *storage.Table
	name string // of the table
}

// Of returns the log of a store.
func Of(s *storage.Store) *Log { return &Log{s.Table(table), table} }

// In returns a log of its own, in another table: of what happens so often that the acts of operators would be hard to
// find among it.
func In(s *storage.Store, name string) *Log { return &Log{s.Table(name), name} }

// place is where the row of an act is. The newest ID of a day is first.
func place(id string) (partition, key string, at time.Time, err error) {
	at, err = timeOf(id)
	return at.Format(day), fmt.Sprintf("%016x-%s", math.MaxInt64-at.UnixMilli(), id), at, err
}

// ErrOld is the error of an ID that was made more than a day ago.
var ErrOld = errors.New("this form is older than a day; load it again")

// Begin writes what is meant, before it is done. If the ID is known, known is what was meant then, with the result if
// there is one: the caller does nothing if it is done, and else may do it again. The error matches [ErrOtherAct] if
// something else was meant under the ID, or the same with another Digest, and [ErrOld] if the ID is older than a day.
// After any error the act must not be done.
func (l *Log) Begin(ctx context.Context, e Entry) (known Entry, err error) {
	partition, key, at, err := place(e.ID)
	if err != nil {
		return Entry{}, err
	}
	if e.Who == "" || e.Act == "" {
		return Entry{}, fmt.Errorf("%w: an entry of the audit log needs Who and Act", storage.ErrInvalid)
	}
	now := time.Now().UTC().Round(0)
	switch {
	case now.Sub(at) > oldest:
		return Entry{}, ErrOld
	case at.Sub(now) > ahead:
		return Entry{}, fmt.Errorf("%w: the time in the ID, %s, is ahead of the clock of this machine", storage.ErrInvalid, at.Format(time.RFC3339))
	}
	e = e.meant(now)
	data, err := json.Marshal(document{Entry: e, Digest: e.Digest})
	if err != nil {
		return Entry{}, err
	}
	_, err = l.rows.Put(ctx, partition, key, data, storage.Condition{IfAbsent: true})
	if err == nil {
		return e, nil
	}
	if !errors.Is(err, storage.ErrExists) {
		return Entry{}, err
	}
	was, err := l.read(ctx, partition, key)
	if err != nil {
		return Entry{}, err
	}
	was.Again = true
	switch other := was.Digest != "" && was.Digest != e.Digest; { // older versions have written no digest
	case other && was.Act == e.Act && was.On == e.On && was.Who == e.Who:
		return Entry{}, fmt.Errorf("%w: the same with another content, at %s", ErrOtherAct, was.Time.Format(time.RFC3339))
	case other || was.Act != e.Act || was.On != e.On || was.Who != e.Who:
		return Entry{}, fmt.Errorf("%w: %s on %s by %s, at %s", ErrOtherAct, was.Act, storage.Quote(was.On), storage.Quote(was.Who), was.Time.Format(time.RFC3339))
	}
	return was, nil
}

// Note writes an act that has ended: its result is known, as e has it. It is one write, where Begin and End are two. A
// Note that comes again changes nothing.
func (l *Log) Note(ctx context.Context, e Entry) error {
	_, partition, key, data, err := l.Row(e)
	if err != nil {
		return err
	}
	_, err = l.rows.Put(ctx, partition, key, data, storage.Condition{IfAbsent: true})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// Row is the row of a [Log.Note], for a unit of work that does what the row says.
func (l *Log) Row(e Entry) (name, partition, key string, data []byte, err error) {
	partition, key, at, err := place(e.ID)
	if err == nil && (e.Who == "" || e.Act == "" || e.Result == "") {
		err = fmt.Errorf("%w: a note of the audit log needs Who, Act and Result", storage.ErrInvalid)
	}
	if err != nil {
		return "", "", "", nil, err
	}
	result, failed := clean(e.Result), e.Failed
	e = e.meant(at)
	e.Ended, e.Result, e.Failed = at, result, failed
	data, err = json.Marshal(document{Entry: e, Digest: e.Digest})
	return l.name, partition, key, data, err
}

// MostAnswer bounds the bytes of an answer that a row keeps.
const MostAnswer = 16 << 10

// End writes how an act ended that has begun, with the answer of the entry, if any. A second end changes nothing: the
// first one stays.
func (l *Log) End(ctx context.Context, e Entry, result string, failed error) error {
	partition, key, _, err := place(e.ID)
	if err != nil {
		return err
	}
	end := Entry{ID: e.ID, Ended: time.Now().UTC().Round(0), Result: clean(result)}
	if failed != nil {
		end.Failed, end.Result, end.Fault = true, clean(failed.Error()), e.Fault
	}
	if len(e.Answer) > MostAnswer {
		return fmt.Errorf("%w: an answer of %d bytes is more than a row keeps", storage.ErrInvalid, len(e.Answer))
	}
	data, err := json.Marshal(document{Entry: end, Answer: json.RawMessage(e.Answer)})
	if err != nil {
		return err
	}
	_, err = l.rows.Put(ctx, partition, key+ended, data, storage.Condition{IfAbsent: true})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// Get returns an act. Its error matches [storage.ErrNotFound] if nobody has begun it.
func (l *Log) Get(ctx context.Context, id string) (Entry, error) {
	partition, key, _, err := place(id)
	if err != nil {
		return Entry{}, err
	}
	return l.read(ctx, partition, key)
}

func (l *Log) read(ctx context.Context, partition, key string) (e Entry, err error) {
	found := false
	for row, err := range l.rows.Query(ctx, partition, storage.RowRange{From: key, To: key + ended + "\x00"}) {
		if err != nil {
			return Entry{}, err
		}
		if err := e.add(row); err != nil {
			return Entry{}, err
		}
		found = found || row.Key == key
	}
	if !found {
		return Entry{}, fmt.Errorf("%w: nobody has begun this act", storage.ErrNotFound)
	}
	return e, nil
}

// List yields the acts of a time, those with the newest IDs first. It reads a day at a time, so a caller who breaks off
// early reads no more than the days that were asked for. An entry that can't be read is an error, and the listing goes
// on after it.
func (l *Log) List(ctx context.Context, from, to time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		first := midnight(from.UTC().Add(-oldest)) // an act may be a day younger than its ID
		for at := to.UTC().Add(ahead); !at.Before(first); at = midnight(at).Add(-time.Millisecond) {
			for e, err := range l.day(ctx, at.Format(day)) {
				if err == nil && (e.Time.Before(from) || e.Time.After(to)) {
					continue
				}
				if !yield(e, err) {
					return
				}
				if err != nil && !errors.Is(err, errRow) {
					return
				}
			}
		}
	}
}

func midnight(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }

// day yields the acts of a partition. The row of an act comes right before the row of its end.
func (l *Log) day(ctx context.Context, partition string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var e Entry
		for row, err := range l.rows.Query(ctx, partition, storage.RowRange{}) {
			if err == nil && strings.HasSuffix(row.Key, ended) {
				err = e.add(row)
			} else {
				if e.ID != "" && !yield(e, nil) {
					return
				}
				e = Entry{}
				if err == nil {
					err = e.add(row)
				}
			}
			if err != nil {
				e = Entry{}
				if !yield(Entry{}, err) || !errors.Is(err, errRow) {
					return
				}
			}
		}
		if e.ID != "" {
			yield(e, nil)
		}
	}
}

// errRow is the error of a row that this package hasn't written.
var errRow = errors.New("a row of the audit log can't be read")

// add reads a row into the entry: what was meant, or how that ended.
func (e *Entry) add(row storage.Row) error {
	var x document
	if err := json.Unmarshal(row.Data, &x); err != nil || x.ID == "" || !strings.Contains(row.Key, x.ID) || e.ID != "" && e.ID != x.ID {
		return fmt.Errorf("%w: row %s", errRow, storage.Quote(row.Key))
	}
	if strings.HasSuffix(row.Key, ended) {
		e.Ended, e.Result, e.Failed, e.Fault, e.Answer = x.Ended, x.Result, x.Failed, x.Fault, string(x.Answer)
		if e.Ended.Before(e.Time) { // by the clock of another machine
			e.Ended = e.Time
		}
		return nil
	}
	*e = x.Entry
	e.Digest = x.Digest
	return nil
}

// meant returns what the first row of an act says.
func (e Entry) meant(at time.Time) Entry {
	return Entry{ID: e.ID, Time: at, Who: clean(e.Who), Said: e.Said, From: clean(e.From), Act: clean(e.Act), On: clean(e.On), Why: clean(e.Why), Digest: e.Digest}
}

// clean cuts a text at the bound, and takes control characters out of it.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) <= mostText {
		return text
	}
	cut := mostText - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
