package valet

import (
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// The queues of [Route]. Handlers of CheckQueue read whole files, and call the scanner: host.Program.Guards has the
// scanner's guard there.
const (
	Queue      = "files"
	CheckQueue = "file-checks"
)

// Route returns the routes of the messages that the package sends itself. They go to [Queue] and [CheckQueue].
func Route() channel.Route {
	return wire.Together(
		channel.Command[complete](Queue), channel.Command[expire](Queue), channel.Command[settle](Queue),
		channel.Command[revoke](Queue), channel.Command[revokeAll](Queue), channel.Command[release](Queue),
		channel.Command[remove](Queue), channel.Command[cleanUp](Queue), channel.Command[mark](Queue), channel.Command[forget](Queue),
		channel.Command[check](CheckQueue),
	)
}

// Uploaded says that a file was put, checked and accepted. It is emitted once.
type Uploaded struct {
	ID     string `json:"id"`
	Rule   string `json:"rule,omitempty"`
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	For    string `json:"for,omitempty"` // as in [Upload]
}

// Rejected says that there will be no file. It is emitted once, and never besides [Uploaded].
type Rejected struct {
	ID     string `json:"id"`
	Rule   string `json:"rule,omitempty"`
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	For    string `json:"for,omitempty"` // as in [Upload]
	State  State  `json:"state"`         // rejected, expired or revoked
	Reason string `json:"reason"`        // in words, for the owner
}

// Kind is the name on the wire.
func (Uploaded) Kind() channel.Kind { return "millrace.file.uploaded.v1" }

// Kind is the name on the wire.
func (Rejected) Kind() channel.Kind { return "millrace.file.rejected.v1" }

// complete says that all bytes are there.
type complete struct {
	ID    string `json:"id"`
	Round int    `json:"round"` // of the file, when the client said so
}

// expire says that the time of an upload is over.
type expire struct {
	ID string `json:"id"`
}

// check asks for the check of a file.
type check struct {
	ID    string `json:"id"`
	Round int    `json:"round"`
}

// settle is the verdict of a check.
type settle struct {
	ID     string `json:"id"`
	Round  int    `json:"round"`
	State  State  `json:"state"` // Clean, Rejected, Held, Expired or Revoked; Granted: parts are missing
	Reason string `json:"reason,omitempty"`
	Type   string `json:"type,omitempty"`
	UTF8   bool   `json:"utf8,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	ETag   string `json:"etag,omitempty"` // of what is held
}

// revoke ends keys of a file.
type revoke struct {
	ID   string    `json:"id"`
	Key  string    `json:"key,omitempty"` // one key; empty: all that were made until At
	Made time.Time `json:"made,omitzero"` // when Key was made
	At   time.Time `json:"at,omitzero"`
	Why  string    `json:"why"`
}

// revokeAll ends all keys of an owner that were made until At, or a key of a folder.
type revokeAll struct {
	Whose string    `json:"whose"` // a digest
	At    time.Time `json:"at"`
	Why   string    `json:"why"`
}

// release lets a file pass that is held.
type release struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// remove deletes a file that was accepted.
type remove struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// cleanUp deletes bytes: those in the inbox, or all.
type cleanUp struct {
	ID    string `json:"id"`
	Round int    `json:"round"`
	All   bool   `json:"all,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// mark keeps the list of files that are held.
type mark struct {
	ID string `json:"id"`
}

// forget deletes the document of a file that has ended.
type forget struct {
	ID string `json:"id"`
}

func (complete) Kind() channel.Kind  { return "millrace.file.complete.v1" }
func (expire) Kind() channel.Kind    { return "millrace.file.expire.v1" }
func (check) Kind() channel.Kind     { return "millrace.file.check.v1" }
func (settle) Kind() channel.Kind    { return "millrace.file.settle.v1" }
func (revoke) Kind() channel.Kind    { return "millrace.file.revoke.v1" }
func (revokeAll) Kind() channel.Kind { return "millrace.file.revokeall.v1" }
func (release) Kind() channel.Kind   { return "millrace.file.release.v1" }
func (remove) Kind() channel.Kind    { return "millrace.file.remove.v1" }
func (cleanUp) Kind() channel.Kind   { return "millrace.file.cleanup.v1" }
func (mark) Kind() channel.Kind      { return "millrace.file.mark.v1" }
func (forget) Kind() channel.Kind    { return "millrace.file.forget.v1" }

// MessageID makes all completions of a round one message. It carries no time: a file may be completed days after its
// key was made.
func (m complete) MessageID() string {
	return channel.DerivedID("complete:" + m.ID + ":" + strconv.Itoa(m.Round))
}

// MessageID makes equal verdicts of a check one message. Where a check that was repeated comes to another verdict, the
// first one that is decided counts, and the other one changes nothing.
func (m settle) MessageID() string {
	return channel.DerivedID(strings.Join([]string{"settle", m.ID, strconv.Itoa(m.Round), string(m.State), m.Reason, m.Type, m.SHA256, m.ETag}, "\n"))
}

func (m complete) file() string   { return m.ID }
func (m expire) file() string     { return m.ID }
func (m settle) file() string     { return m.ID }
func (m revoke) file() string     { return m.ID }
func (m revokeAll) whose() string { return m.Whose }
func (m release) file() string    { return m.ID }
func (m remove) file() string     { return m.ID }
