package valet

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/values"
)

// A State is where a file is on its way.
type State string

// These are the states of a file. The last four are ends.
const (
	StateGranted  State = "granted"  // bytes may come
	StateArrived  State = "arrived"  // all bytes are there and are being checked
	StateHeld     State = "held"     // an operator has to look
	StateClean    State = "clean"    // it may be read
	StateRejected State = "rejected" // it isn't what was declared, or the scanner refused it
	StateExpired  State = "expired"  // its bytes have not come in time
	StateRevoked  State = "revoked"
	StateDeleted  State = "deleted"
)

// mostRevoked bounds the revoked keys that a file remembers one by one.
const mostRevoked = 200

// A File is what is known of a file: the value object under its ID.
type File struct {
	ID     string    `json:"id"`
	Rule   string    `json:"rule,omitempty"`
	Owner  string    `json:"owner"`
	Name   string    `json:"name"`             // as people see it; no path
	Type   string    `json:"type"`             // as declared, and then as found
	UTF8   bool      `json:"utf8,omitempty"`   // it was found to be text in UTF-8
	Size   int64     `json:"size"`             // bytes
	SHA256 string    `json:"sha256,omitempty"` // hexadecimal; as declared, and then as found
	For    string    `json:"for,omitempty"`
	Made   time.Time `json:"made"`
	Until  time.Time `json:"until"` // when the upload ends

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // of the state, in words

	PartSize int64     `json:"partSize"`
	Round    int       `json:"round,omitempty"`   // of the check that is awaited
	Late     bool      `json:"late,omitempty"`    // its time has ended
	Force    bool      `json:"force,omitempty"`   // an operator has released it: the scanner isn't asked
	ETag     string    `json:"etag,omitempty"`    // of the bytes in the inbox that were held
	Before   time.Time `json:"before,omitzero"`   // keys that were made until then are revoked
	Gone     revoked   `json:"revoked,omitempty"` // single keys, and when they were made
}

// revoked are keys that somebody has revoked one by one.
type revoked map[string]time.Time

// Ended reports that nothing can become of the file any more.
func (s State) Ended() bool {
	return s == StateRejected || s == StateExpired || s == StateRevoked || s == StateDeleted
}

// parts returns the sizes of the file's parts.
func (f File) parts() []int64 {
	var sizes []int64
	for rest := f.Size; rest > 0; rest -= f.PartSize {
		sizes = append(sizes, min(rest, f.PartSize))
	}
	return sizes
}

// mediaType is the type with which a browser gets the file.
func (f File) mediaType() string {
	if f.UTF8 && strings.HasPrefix(f.Type, "text/") {
		return f.Type + "; charset=utf-8"
	}
	return f.Type
}

// revokes reports whether a key of the file counts no more. made is when the key was made.
func (f File) revokes(key string, made time.Time) bool {
	_, one := f.Gone[key]
	return one || f.State == StateRevoked || !made.After(f.Before)
}

func (f File) complete(m complete) (File, []channel.Message, error) {
	if f.State != StateGranted || m.Round != f.Round {
		return f, nil, values.ErrUnchanged
	}
	return f.arrive()
}

// arrive sends the file to its check.
func (f File) arrive() (File, []channel.Message, error) {
	f.State, f.Reason = StateArrived, ""
	f.Round++
	return f, []channel.Message{check{ID: f.ID, Round: f.Round}}, nil
}

// expire ends the time of the upload. Whether all bytes are there only the check can tell.
func (f File) expire(expire) (File, []channel.Message, error) {
	switch f.State {
	case StateGranted:
		f.Late = true
		return f.arrive()
	case StateArrived, StateHeld:
		f.Late = true
		return f, nil, nil
	}
	return f, nil, values.ErrUnchanged
}

// settle takes the verdict of a check.
func (f File) settle(m settle) (File, []channel.Message, error) {
	if f.State != StateArrived || m.Round != f.Round {
		if m.State == StateClean && f.State.Ended() { // a check that took long has copied what nobody wants any more
			return f, cleanAll(f.ID, m.Round), nil
		}
		return f, nil, values.ErrUnchanged
	}
	if m.State == StateGranted && f.Late {
		m.State, m.Reason = StateExpired, "not all bytes have come in time"
	}
	f.State, f.Reason = m.State, m.Reason
	switch m.State {
	case StateClean:
		f.Type, f.UTF8, f.SHA256, f.Force, f.ETag = m.Type, m.UTF8, m.SHA256, false, ""
		return f, []channel.Message{f.uploaded(), cleanUp{ID: f.ID, Round: f.Round}, later(cleanUp{ID: f.ID, Round: f.Round})}, nil
	case StateHeld:
		f.ETag = m.ETag
		return f, []channel.Message{mark{f.ID}}, nil
	case StateGranted:
		return f, nil, nil
	}
	return f.end()
}

// end emits what follows the end of a file.
func (f File) end() (File, []channel.Message, error) {
	f.Gone, f.Force, f.ETag = nil, false, ""
	return f, append(cleanAll(f.ID, f.Round), f.rejected(), channel.After(keepEnded, forget{ID: f.ID})), nil
}

// cleanAll deletes all bytes.
func cleanAll(id string, round int) []channel.Message {
	m := cleanUp{ID: id, Round: round, All: true}
	return []channel.Message{m, later(m)}
}

// later cleans once more when no key of the store is good any more, and no check runs that has begun before: either may
// put bytes after the first cleaning.
func later(m cleanUp) channel.Message {
	m.Again = true
	return channel.After(writeFor+slack, m)
}

// revoke ends keys: one of them, or all that were made until now, and with those the upload.
func (f File) revoke(m revoke) (File, []channel.Message, error) {
	switch {
	case f.State == "", f.State.Ended():
		return f, nil, values.ErrUnchanged
	case m.Key != "":
		f.Gone = maps.Clone(f.Gone)
		if f.Gone == nil {
			f.Gone = revoked{}
		}
		f.Gone[m.Key] = m.Made
		f.forgetSome()
		return f, nil, nil
	}
	if m.At.After(f.Before) {
		f.Before = m.At
	}
	f.Gone = nil // all of them were made before
	if f.State == StateClean {
		return f, nil, nil
	}
	held := f.State == StateHeld
	f.State, f.Reason = StateRevoked, m.Why
	f, out, err := f.end()
	if held {
		out = append(out, mark{f.ID})
	}
	return f, out, err
}

// forgetSome keeps the list of revoked keys short. All keys that were made before the newest one that leaves the list
// are revoked then, which is the safe side.
func (f *File) forgetSome() {
	if len(f.Gone) <= mostRevoked {
		return
	}
	keys := slices.SortedFunc(maps.Keys(f.Gone), func(a, b string) int { return f.Gone[a].Compare(f.Gone[b]) })
	for _, key := range keys[:len(keys)/2] {
		if at := f.Gone[key]; at.After(f.Before) {
			f.Before = at
		}
		delete(f.Gone, key)
	}
}

// release lets a file that is held be checked again, without the scanner.
func (f File) release(m release) (File, []channel.Message, error) {
	if f.State != StateHeld {
		return f, nil, values.ErrUnchanged
	}
	f.Force = f.ETag != "" // else its check has come to no verdict, and takes place now
	f, out, err := f.arrive()
	return f, append(out, mark{f.ID}), err
}

// remove deletes what was accepted.
func (f File) remove(m remove) (File, []channel.Message, error) {
	if f.State != StateClean {
		return f, nil, values.ErrUnchanged
	}
	f.State, f.Reason, f.Gone = StateDeleted, m.Why, nil
	return f, append(cleanAll(f.ID, f.Round), channel.After(keepEnded, forget{ID: f.ID})), nil
}

func (f File) uploaded() Uploaded {
	return Uploaded{ID: f.ID, Rule: f.Rule, Owner: f.Owner, Name: f.Name, Type: f.Type, Size: f.Size, SHA256: f.SHA256, For: f.For}
}

func (f File) rejected() Rejected {
	return Rejected{ID: f.ID, Rule: f.Rule, Owner: f.Owner, Name: f.Name, For: f.For, State: f.State, Reason: f.Reason}
}

// A revocation is what was revoked of an owner, or of a folder's key.
type revocation struct {
	Before time.Time `json:"before,omitzero"` // keys that were made until then are revoked
	Why    string    `json:"why,omitempty"`
}

func (o revocation) revoke(m revokeAll) (revocation, []channel.Message, error) {
	if !m.At.After(o.Before) {
		return o, nil, values.ErrUnchanged
	}
	return revocation{m.At, m.Why}, nil, nil
}
