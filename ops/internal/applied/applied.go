// Package applied tells whether a message has had its effect, by what the handler of the message leaves in the store.
// Before somebody sends another message in its place, the answer must be known: else both may have their effect.
//
// An answer that is not certain says why. A record may be deleted after 30 days, a reaction may leave none, and a
// binary without the program's code may not know the document of a message.
package applied

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/once"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

const (
	mostSearched = 1000 // documents of a collection, for a message whose document is not known
	fewSearched  = 32   // likewise, for somebody who only looks
	atOnce       = 16   // documents that are read together
)

// A Verdict says whether a message has had its effect.
type Verdict struct {
	Applied bool
	Known   bool // whether that is certain
	Why     string
	Key     string // of the document whose record has the message; "" if none is known
}

func unclear(format string, args ...any) Verdict { return Verdict{Why: fmt.Sprintf(format, args...)} }

// Was asks the record of the handler of a message. entry is where the message lies.
//
//   - A collection records each message in its document. This binary's code knows the document. Without it, the
//     document of the message's subject is looked at, and then all others, if there are few.
//     A collection may keep no record of some messages.
//   - ReactOnce notes each message.
//   - Any other reaction leaves nothing.
func Was(ctx context.Context, desk *act.Desk, entry poison.Entry, e *channel.Envelope) (Verdict, error) {
	return was(ctx, desk, entry, e, mostSearched)
}

// Near is Was with few requests: where the document of the message isn't known, a collection with more than some
// documents isn't searched.
func Near(ctx context.Context, desk *act.Desk, entry poison.Entry, e *channel.Envelope) (Verdict, error) {
	return was(ctx, desk, entry, e, fewSearched)
}

func was(ctx context.Context, desk *act.Desk, entry poison.Entry, e *channel.Envelope, most int) (Verdict, error) {
	if entry.Reason == handlers.ReasonContentDiffers {
		return Verdict{Applied: true, Known: true, Why: "another message with this ID and other content was applied"}, nil
	}
	h, ok := desk.Known.Handler(entry.Queue, e.Kind)
	switch {
	case !ok:
		return unclear("no program says how it handles %s from queue %s", e.Kind, entry.Queue), nil
	case h.Once:
		return wasNoted(ctx, desk.Store, entry.Queue, e)
	case h.Collection == "":
		return unclear("%s is a reaction that leaves no record", h.Name), nil
	}
	r := &recordSearch{store: desk.Store, collection: h.Collection, group: h.Group, e: e}
	for _, own := range desk.Handled {
		if own.Queue == entry.Queue && own.Kind == e.Kind && own.Key != nil && e.Data != nil {
			key, concerned, err := own.Key(e)
			if err != nil || !concerned { // it never got as far as its document, or no document is for it
				return Verdict{Known: true}, nil
			}
			if own.Unrecorded(e) {
				return unclear("%s keeps no record of it, because its documents tell repeats by themselves", h.Name), nil
			}
			return r.in(ctx, key)
		}
	}
	if e.Subject != "" {
		if v, err := r.in(ctx, e.Subject); v.Applied || err != nil {
			return v, err
		}
	}
	return r.everywhere(ctx, most)
}

// wasNoted asks for the note of ReactOnce.
func wasNoted(ctx context.Context, s *storage.Store, group string, e *channel.Envelope) (Verdict, error) {
	begun, done, err := once.Noted(ctx, s, group, e)
	switch {
	case errors.Is(err, values.ErrTooOld):
		return unclear("its note may be deleted, because the message is more than 30 days old"), nil
	case err != nil:
		return Verdict{}, err
	case done:
		return Verdict{Applied: true, Known: true, Why: "its reaction in queue " + group + " is noted as done"}, nil
	case begun:
		return unclear("its reaction in queue %s has begun, and may have had its effect", group), nil
	}
	return Verdict{Known: true}, nil
}

// A recordSearch looks for a message in the replay records of a collection.
type recordSearch struct {
	store             *storage.Store
	collection, group string
	e                 *channel.Envelope
}

// in looks into one document.
func (r *recordSearch) in(ctx context.Context, key string) (Verdict, error) {
	if storage.CheckKey(key) != nil {
		return Verdict{Known: true}, nil // there can't be such a document
	}
	switch applied, err := values.Applied(ctx, r.store, r.collection, key, r.group, r.e); {
	case errors.Is(err, values.ErrTooOld):
		return unclear("its record may be deleted, because the message is more than 30 days old"), nil
	case err != nil:
		return Verdict{}, err
	case applied:
		return Verdict{Applied: true, Known: true, Key: key, Why: fmt.Sprintf("document %s in %s has it in its record", storage.Quote(key), r.collection)}, nil
	}
	return Verdict{Known: true}, nil
}

// everywhere looks into all documents, if there are not too many.
func (r *recordSearch) everywhere(ctx context.Context, most int) (Verdict, error) {
	var keys []string
	for info, err := range r.store.Blobs(r.collection).List(ctx, "") {
		if err != nil {
			return Verdict{}, err
		}
		if keys = append(keys, info.Key); len(keys) > most {
			return unclear("this binary does not know its document in %s, which has too many to search; the program's own binary knows it", r.collection), nil
		}
	}
	verdicts := make([]Verdict, len(keys))
	g, searching := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, key := range keys {
		g.Go(func() (err error) {
			verdicts[i], err = r.in(searching, key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Verdict{}, err
	}
	sum := Verdict{Known: true}
	for _, v := range verdicts {
		if v.Applied {
			return v, nil
		}
		if !v.Known {
			sum = v
		}
	}
	return sum, nil
}

// remembered is how long replay records and notes of ReactOnce know messages that have left their windows. It is the
// default of values.Config.Retention.
const remembered = 30 * 24 * time.Hour

// MayBeForgotten reports that a message counts from a time so long ago that perhaps nothing remembers it any more.
func MayBeForgotten(e *channel.Envelope) bool {
	born := e.Born()
	return !born.IsZero() && time.Since(born) > remembered
}
