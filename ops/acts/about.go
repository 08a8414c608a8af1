package acts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

const (
	mostSources = 32 // of a view's document, that are read
	mostViews   = 32 // in which a document of the same key is looked for
)

// A DocumentAbout is what is known of a document beside its value.
type DocumentAbout struct {
	Kind       string    `json:"kind"`
	Key        string    `json:"key"`
	View       bool      `json:"view"`
	Version    uint64    `json:"version"` // messages applied
	Emitted    uint64    `json:"emitted"`
	Remembered int       `json:"remembered"`
	Pending    int       `json:"pending"` // events that are not known to be sent
	Size       int       `json:"size"`
	Changed    time.Time `json:"changed"`
	Related    []Related `json:"related"`
}

// A Related is a document beside which another one stands: a source of a view, or a view with the same key.
type Related struct {
	What    string    `json:"what"` // source or view
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Folded  uint64    `json:"folded"`  // events of the source that the view has, by their number; 0 if it doesn't tell
	Emitted uint64    `json:"emitted"` // events of the source
	Version uint64    `json:"version"`
	Changed time.Time `json:"changed"`
	State   string    `json:"state"`
}

// A ViewDeleted is a view's document that was deleted, or would be.
type ViewDeleted struct {
	View   string `json:"view"`
	Key    string `json:"key"`
	Result string `json:"result"` // deleted, or selected: a dry run
	ETag   string `json:"etag"`   // of what is deleted, for --etag
}

// aboutActs are the acts on what stands beside a document.
func aboutActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "values", Verb: "about", Role: act.Viewer, About: "show the record of a document, and the views or values beside it",
			More: "VERSION counts the messages that the document has applied. A view that keeps the newest event of each source names its sources: they are shown " +
				"with what they have emitted since. Of another view nothing tells the sources. A value is shown with the documents of views that name it, " +
				"or that have the same key.",
		}, func(in *documentInput) []act.Field { return []act.Field{in.kindField(false), in.keyField()} }, aboutDocument),
		act.New(act.Act{Noun: "views", Verb: "delete", Role: act.Admin, Why: act.Must, Sure: act.Must, About: "delete a document of a view",
			More: "A later event begins a new one. A view that names its sources can be made anew by views rebuild. Another one loses what it has folded, because " +
				"nothing sends the events again.",
		}, func(in *deleteInput) []act.Field {
			return []act.Field{in.kindField(true), in.keyField(), act.Text(&in.etag, "etag", "delete the document only if it still has this `ETAG`, which a dry run has told as JSON")}
		}, deleteView),
	}
}

// A deleteInput is what deleting a document takes.
type deleteInput struct {
	documentInput
	etag string
}

// sourcesOf are the numbers of the events that a view's document has folded, by source.
func sourcesOf(d document) map[string]uint64 {
	var folded struct {
		Sources map[string]uint64 `json:"sources"`
	}
	_ = json.Unmarshal(d.Value, &folded) // it is no view's
	return folded.Sources
}

func aboutDocument(ctx context.Context, c *act.Call, in *documentInput) error {
	d, key, size, err := in.find(ctx, c)
	if err != nil {
		return err
	}
	a := DocumentAbout{Kind: in.kind, Key: key, View: slices.Contains(c.Known.Collections(true), in.kind), Version: d.Version, Emitted: d.Emitted,
		Remembered: len(d.Applied) / recordEntry, Size: size, Related: []Related{}}
	for _, p := range d.Pending {
		a.Pending += len(p.Events)
	}
	if a.Changed, err = changedAt(ctx, c, in.kind, key); err != nil {
		c.Note("When it was changed can't be read: %v", err)
	}
	if a.View {
		a.sources(ctx, c, sourcesOf(d))
	} else {
		a.views(ctx, c, d)
	}
	return a.tell(c)
}

// changedAt is when a blob was written last.
func changedAt(ctx context.Context, c *act.Call, container, key string) (time.Time, error) {
	for info, err := range c.Store.Blobs(container).List(ctx, key) {
		if err != nil {
			return time.Time{}, err
		}
		if info.Key == key { // it comes first
			return info.Modified.UTC(), nil
		}
		break
	}
	return time.Time{}, nil
}

// beside reads a document that stands beside another one. found is false if there is none.
func beside(ctx context.Context, c *act.Call, kind, key string) (d document, found bool, err error) {
	if storage.CheckName(kind) != nil || storage.CheckKey(key) != nil {
		return d, false, nil
	}
	blob, err := c.Store.Blobs(kind).Get(ctx, key, "")
	if errors.Is(err, storage.ErrNotFound) {
		return d, false, nil
	}
	if err == nil && json.Unmarshal(blob.Body, &d) != nil {
		err = fmt.Errorf("document %s in %s is not one of package values", storage.Quote(key), kind)
	}
	return d, err == nil, err
}

// sources are the values from whose events a view was made.
func (a *DocumentAbout) sources(ctx context.Context, c *act.Call, folded map[string]uint64) {
	for i, source := range slices.Sorted(maps.Keys(folded)) {
		if i == mostSources {
			c.Note("It has %d sources more.", len(folded)-mostSources)
			return
		}
		kind, key, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		r := Related{What: "source", Kind: kind, Key: key, Folded: folded[source]}
		d, found, err := beside(ctx, c, kind, key)
		r.Version, r.Emitted = d.Version, d.Emitted
		switch {
		case err != nil:
			r.State = "can't be read"
		case !found:
			r.State = "gone"
		case d.Emitted > r.Folded:
			r.State = fmt.Sprintf("%s not folded, or of other kinds", act.Count(int(d.Emitted-r.Folded), "event"))
		default:
			r.State = "the view has all"
		}
		if found {
			r.Changed, _ = changedAt(ctx, c, kind, key) // it is shown as unknown
		}
		a.Related = append(a.Related, r)
	}
}

// views are the documents of views that may have been made of a value: documents that name the value or have its key.
func (a *DocumentAbout) views(ctx context.Context, c *act.Call, of document) {
	source := "/" + a.Kind + "/" + url.PathEscape(a.Key)
	for i, view := range c.Known.Collections(true) {
		if i == mostViews {
			c.Note("Not all views were looked at.")
			return
		}
		d, found, err := beside(ctx, c, view, a.Key)
		if err != nil {
			c.Note("View %s can't be read: %v", view, err)
		}
		if !found {
			continue
		}
		r := Related{What: "view", Kind: view, Key: a.Key, Version: d.Version, Emitted: d.Emitted, State: "has the same key"}
		if n, ok := sourcesOf(d)[source]; ok {
			if r.Folded, r.State = n, "has all"; n < of.Emitted {
				r.State = fmt.Sprintf("has %d of %d events, or the others are of other kinds", n, of.Emitted)
			}
		}
		r.Changed, _ = changedAt(ctx, c, view, a.Key) // it is shown as unknown
		a.Related = append(a.Related, r)
	}
}

// tell tells the record, and the documents beside it.
func (a *DocumentAbout) tell(c *act.Call) error {
	parts := []act.Part{
		{Name: "Messages applied", Value: a.Version}, {Name: "Events emitted", Value: a.Emitted}, {Name: "Remembered in it", Value: a.Remembered},
		{Name: "Not known to be sent", Value: a.Pending}, {Name: "Bytes", Value: a.Size}, {Name: "Changed", Value: a.Changed},
	}
	if err := c.Thing(a, parts, ""); err != nil {
		return err
	}
	none := "No view has a document of this key."
	if a.View {
		none = "The view doesn't name its sources."
	}
	if err := c.Table(none, "WHAT", "OF", "KEY", "VERSION", "EMITTED", "FOLDED", "CHANGED", "STATE"); err != nil {
		return err
	}
	for _, r := range a.Related {
		link := act.Link{Text: r.Key, Act: "values show", With: map[string]string{"kind": r.Kind, "key": r.Key}}
		if r.What == "view" {
			link = act.Link{Text: r.Key, Act: "views show", With: map[string]string{"view": r.Kind, "key": r.Key}}
		}
		folded := any(nil)
		if r.Folded > 0 {
			folded = r.Folded
		}
		if err := c.Row(nil, r.What, r.Kind, link, r.Version, r.Emitted, folded, r.Changed, r.State); err != nil {
			return err
		}
	}
	return nil
}

func deleteView(ctx context.Context, c *act.Call, in *deleteInput) error {
	if err := in.check(c.Desk); err != nil {
		return err
	}
	blobs := c.Store.Blobs(in.kind)
	blob, err := blobs.Get(ctx, in.key, "")
	if errors.Is(err, storage.ErrNotFound) {
		return act.Nothing("no document %s in %s", storage.Quote(in.key), in.kind)
	}
	var d document
	if err == nil && json.Unmarshal(blob.Body, &d) != nil {
		err = fmt.Errorf("document %s in %s is not one of package values", storage.Quote(in.key), in.kind)
	}
	var folded struct{ View json.RawMessage }
	if err == nil && (json.Unmarshal(d.Value, &folded) != nil || folded.View == nil) {
		err = act.Usage("%s is not a view", in.kind)
	}
	if err != nil {
		return err
	}
	then := "It was folded from events, and nothing sends them again."
	if len(sourcesOf(d)) > 0 {
		then = "views rebuild makes it anew."
	}
	stale := fmt.Errorf("document %s of %s has changed since it was shown, and is not deleted: look again", storage.Quote(in.key), in.kind)
	if in.etag != "" && in.etag != string(blob.ETag) && !c.DryRun { // a dry run shows the document as it is
		return stale
	}
	line := ViewDeleted{in.kind, in.key, selected, string(blob.ETag)}
	if c.DryRun {
		c.Confirm("etag", line.ETag)
		return c.Say(line, "Would delete document %s of %s, %d bytes. %s", storage.Quote(in.key), in.kind, len(blob.Body), then)
	}
	if err := blobs.Delete(ctx, in.key, storage.Condition{IfMatch: blob.ETag}); storage.LostRace(err) {
		return stale
	} else if err != nil {
		return err
	}
	line.Result = "deleted"
	return c.Say(line, "Document %s of %s is deleted. %s", storage.Quote(in.key), in.kind, then)
}
