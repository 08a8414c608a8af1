package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/storage"
)

const (
	container = "alerts"
	form      = 1    // of the document
	mostKept  = 500  // findings
	mostAlone = 5    // alerts at a time that are told one by one
	mostText  = 1000 // bytes of each text of a finding
)

// A book is the document: what is wrong, and what was told of it.
type book struct {
	Form    int     `json:"form"`
	Entries []entry `json:"entries"`
}

// An entry is a finding from its beginning until its end was told.
type entry struct {
	Finding doctor.Finding `json:"finding"` // as it began
	Begin   event          `json:"begin"`
	End     event          `json:"end,omitzero"` // zero: it goes on
}

// An event is a beginning or an end.
type event struct {
	ID   string    `json:"id"` // of the alert, which may have several events
	At   time.Time `json:"at"`
	Many bool      `json:"many,omitempty"` // it is told together with others
	Told bool      `json:"told,omitempty"`
}

// open reports that the finding goes on.
func (e *entry) open() bool { return e.End.ID == "" }

// next is what is to be told of an entry; nil for nothing.
func (e *entry) next() *event {
	switch {
	case !e.Begin.Told:
		return &e.Begin
	case !e.open() && !e.End.Told:
		return &e.End
	}
	return nil
}

// errForm is the error of a document that is left as it is.
var errForm = errors.New("the document was not written by this version of the program: start the version that has written it. Or delete the blob; then all that is wrong is told again")

// read reads the document under a term, and shuts earlier leaders out of it.
func read(ctx context.Context, docs *lease.Documents, name string) (b book, tag storage.ETag, err error) {
	if err := docs.Claim(ctx, name); err != nil {
		return b, "", err
	}
	doc, err := docs.Get(ctx, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return book{Form: form}, "", nil
	case err != nil:
		return b, "", err
	}
	if err := json.Unmarshal(doc.Content, &b); err != nil || b.Form != form {
		return b, "", fmt.Errorf("blob %s in container %s: %w", storage.Quote(name), container, errForm)
	}
	return b, doc.ETag, nil
}

// write writes the document if it is still the one that was read.
func (b *book) write(ctx context.Context, docs *lease.Documents, name string, tag storage.ETag) (storage.ETag, error) {
	content, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	return docs.Put(ctx, name, content, storage.Condition{IfMatch: tag, IfAbsent: tag == ""})
}

// note adds findings that have begun, and marks entries as ended, by their indexes. The ones that are too many to be
// told one by one are told together. It returns how many findings found no place.
func (b *book) note(began []doctor.Finding, ended []int, now time.Time) (left int) {
	room := mostAlone
	for i := range b.Entries {
		if e := b.Entries[i].next(); e != nil && !e.Many {
			room--
		}
	}
	group := map[bool]string{} // IDs, of the ends and of the beginnings
	happens := func(end, alone bool) event {
		if alone && room > 0 {
			room--
			return event{ID: channel.NewID(), At: now}
		}
		if group[end] == "" {
			group[end] = channel.NewID()
		}
		return event{ID: group[end], At: now, Many: true}
	}
	for _, i := range ended {
		b.Entries[i].End = happens(true, !b.Entries[i].Begin.Many)
	}
	for _, f := range began {
		if len(b.Entries) == mostKept {
			left++
			continue
		}
		f.Text, f.Fix = clip(f.Text), clip(f.Fix)
		b.Entries = append(b.Entries, entry{Finding: f, Begin: happens(false, true)})
	}
	return left
}

// clip cuts a text at the bound.
func clip(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText-len("…")], "") + "…"
}

// alerts are what is to be told, the oldest first.
func (b *book) alerts() (all []Alert) {
	for i := range b.Entries {
		e := &b.Entries[i]
		x := e.next()
		if x == nil {
			continue
		}
		if j := slices.IndexFunc(all, func(a Alert) bool { return a.ID == x.ID }); j >= 0 {
			all[j].More++
			continue
		}
		all = append(all, Alert{ID: x.ID, Over: x == &e.End, Finding: e.Finding, Since: e.Begin.At, At: x.At})
	}
	return all
}

// mark marks what was told under an ID, and forgets what is over. It reports whether that is news.
func (b *book) mark(id string) (news bool) {
	for i := range b.Entries {
		if e := b.Entries[i].next(); e != nil && e.ID == id {
			e.Told, news = true, true
		}
	}
	b.Entries = slices.DeleteFunc(b.Entries, func(e entry) bool { return e.End.Told })
	return news
}
