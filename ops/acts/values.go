package acts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// recordEntry is the number of bytes that a document's record has for each message it remembers.
const recordEntry = 24

// A document is a document of package values as it is stored.
type document struct {
	Version uint64          `json:"version"`
	Emitted uint64          `json:"emitted"`
	Value   json.RawMessage `json:"value"`
	Applied []byte          `json:"applied"`
	Pending []struct {
		At     time.Time         `json:"at"`
		Events []json.RawMessage `json:"events"`
	} `json:"pending"`
}

// A Document is a document of a collection.
type Document struct {
	Kind       string          `json:"kind"`
	Key        string          `json:"key"`
	Version    uint64          `json:"version"`    // messages applied
	Emitted    uint64          `json:"emitted"`    // events emitted
	Remembered int             `json:"remembered"` // messages in the document's own record
	Pending    []PendingEvents `json:"pending"`
	Size       int             `json:"size"` // bytes in the store
	Value      json.RawMessage `json:"value"`
}

// PendingEvents counts events that are not known to be sent. The next write of the document sends them again.
type PendingEvents struct {
	At     time.Time `json:"at"`
	Events int       `json:"events"`
}

// A ViewDocument is a document of a view as its readers know it.
type ViewDocument struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	View  string          `json:"view"`
}

// A Collection is a collection of documents.
type Collection struct {
	Name        string   `json:"name"`
	View        bool     `json:"view"`
	Kinds       []string `json:"kinds"` // that are folded into it
	Rebuildable bool     `json:"rebuildable"`
}

// A DocumentKey is a document in a list.
type DocumentKey struct {
	Kind     string    `json:"kind"`
	Key      string    `json:"key"`
	Size     int64     `json:"size"` // bytes in the store
	Modified time.Time `json:"modified"`
}

// A documentInput is what acts on documents take.
type documentInput struct {
	act.Page
	kind, key string
	view      bool // kind is that of a view
}

// kindField names a collection, or a view.
func (in *documentInput) kindField(view bool) act.Field {
	name, about := "kind", "the collection"
	if in.view = view; view {
		name, about = "view", "the view"
	}
	return act.Text(&in.kind, name, about).At(strings.ToUpper(name)).From(func(_ context.Context, d *act.Desk) []string { return d.Known.Collections(view) })
}

func (in *documentInput) keyField() act.Field {
	return act.Text(&in.key, "key", "the key of the document").At("KEY").With(storage.CheckKey)
}

func documentActs() []*act.Act {
	const aboutList = "With a name it lists the documents, by key."
	list := func(view bool) func(*documentInput) []act.Field {
		return func(in *documentInput) []act.Field {
			return append(act.List(&in.Page, "documents", "keys"), in.kindField(view).Maybe())
		}
	}
	show := func(view bool) func(*documentInput) []act.Field {
		return func(in *documentInput) []act.Field { return []act.Field{in.kindField(view), in.keyField()} }
	}
	return []*act.Act{
		act.New(act.Act{Noun: "values", Verb: "list", Role: act.Viewer, About: "list the collections of documents, or the documents of one", More: aboutList}, list(false), listDocuments),
		act.New(act.Act{Noun: "values", Verb: "show", Role: act.Viewer, Reveals: true, About: "show the stored value of a document",
			More: "A view also has the sequence numbers that it has folded, by source. Values may be personal. --json also prints the record: " +
				"version (messages applied), emitted (events), remembered (messages in the window), pending (events not known to be sent), size (bytes).",
		}, show(false), showValue),
		act.New(act.Act{Noun: "views", Verb: "list", Role: act.Viewer, About: "list the views, or the documents of one", More: aboutList}, list(true), listDocuments),
		act.New(act.Act{Noun: "views", Verb: "show", Role: act.Viewer, Reveals: true, About: "show a document of a view",
			More: "It may be personal. values show also prints the sequence numbers that it has folded.",
		}, show(true), showView),
		tryAct(), rebuildAct(),
	}
}

// check refuses a collection that no program knows, and a name that can't be one.
func (in *documentInput) check(d *act.Desk) error {
	all, hint := d.Known.Collections(in.view), d.Unpublished()
	switch {
	case slices.Contains(all, in.kind):
		return nil
	case len(all) > 0:
		return act.Usage("unknown kind %s; want one of %s", act.Word(in.kind), strings.Join(all, ", "))
	case hint == "" || storage.CheckName(in.kind) != nil:
		return act.Usage("unknown kind %s%s", act.Word(in.kind), hint)
	}
	return nil // nobody knows any: the store has it or not
}

// listDocuments lists the documents of a collection, or all collections.
func listDocuments(ctx context.Context, c *act.Call, in *documentInput) error {
	if in.kind == "" {
		return listCollections(c, in.view)
	}
	if err := in.check(c.Desk); err != nil {
		return err
	}
	return act.Listing[storage.BlobInfo]{
		None: "No documents.", Head: []string{"KEY", "BYTES", "CHANGED"}, Name: func(x storage.BlobInfo) string { return x.Key },
		Row: func(x storage.BlobInfo) (any, []any) {
			return DocumentKey{in.kind, x.Key, x.Size, x.Modified.UTC()}, []any{in.link(x.Key), x.Size, x.Modified}
		},
	}.Tell(c, in.Page, c.Store.Blobs(in.kind).List(ctx, in.Prefix))
}

// link leads to a document.
func (in *documentInput) link(key string) act.Link {
	if in.view {
		return act.Link{Text: key, Act: "views show", With: map[string]string{"view": in.kind, "key": key}}
	}
	return act.Link{Text: key, Act: "values show", With: map[string]string{"kind": in.kind, "key": key}}
}

// listCollections lists the collections, or the views alone.
func listCollections(c *act.Call, view bool) error {
	folded, isView := map[string]map[string]bool{}, map[string]bool{}
	for _, d := range c.Known.All() {
		for _, x := range d.Collections {
			isView[x.Name] = isView[x.Name] || x.View
			if folded[x.Name] == nil {
				folded[x.Name] = map[string]bool{}
			}
		}
		for _, q := range d.Queues {
			for _, h := range q.Handlers {
				if kinds := folded[h.Collection]; kinds != nil {
					kinds[string(h.Kind)] = true
				}
			}
		}
	}
	if err := c.Table(fmt.Sprintf("No collections are known%s.", c.Unpublished()), "KIND", "WHAT", "FOLDS"); err != nil {
		return err
	}
	for _, name := range c.Known.Collections(view) {
		_, rebuildable := c.Rebuild[name]
		line := Collection{Name: name, View: isView[name], Kinds: slices.Sorted(maps.Keys(folded[name])), Rebuildable: rebuildable}
		what := "values"
		if line.View {
			what = "view"
		}
		if err := c.Row(line, name, what, strings.Join(line.Kinds, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// find reads the document, by its key or by what the program knows it by.
func (in *documentInput) find(ctx context.Context, c *act.Call) (d document, key string, size int, err error) {
	if err := in.check(c.Desk); err != nil {
		return d, "", 0, err
	}
	names := []string{in.key}
	if c.Alias != nil {
		names = append(names, c.Alias(in.key)...)
	}
	for _, name := range names {
		blob, err := c.Store.Blobs(in.kind).Get(ctx, name, "")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err == nil && json.Unmarshal(blob.Body, &d) != nil {
			err = fmt.Errorf("document %s in %s is not one of package values", storage.Quote(name), in.kind)
		}
		return d, name, len(blob.Body), err
	}
	return d, "", 0, act.Nothing("no document %s in %s", storage.Quote(in.key), in.kind)
}

func showValue(ctx context.Context, c *act.Call, in *documentInput) error {
	d, key, size, err := in.find(ctx, c)
	if err != nil {
		return err
	}
	line := Document{Kind: in.kind, Key: key, Version: d.Version, Emitted: d.Emitted, Remembered: len(d.Applied) / recordEntry,
		Pending: []PendingEvents{}, Size: size, Value: c.Content(d.Value, c.Known.Values(in.kind))}
	for _, p := range d.Pending {
		line.Pending = append(line.Pending, PendingEvents{p.At, len(p.Events)})
	}
	return c.Thing(line, nil, string(line.Value))
}

func showView(ctx context.Context, c *act.Call, in *documentInput) error {
	d, key, _, err := in.find(ctx, c)
	if err != nil {
		return err
	}
	var folded struct{ View json.RawMessage }
	if json.Unmarshal(d.Value, &folded) != nil || folded.View == nil {
		return act.Usage("%s is not a view; %s values show prints it", in.kind, c.Command)
	}
	shown := c.Content(folded.View, c.Known.Values(in.kind).At("view"))
	return c.Thing(ViewDocument{key, shown, in.kind}, nil, string(shown))
}
