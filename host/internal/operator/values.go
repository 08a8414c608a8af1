package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
)

// recordEntry is the number of bytes that a document's record has for each message it remembers.
const recordEntry = 24

// A documentCall is a run of a verb that shows documents.
type documentCall struct{ *call }

// document is a document of package values as it is stored.
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

// documentLine is what -json prints of a document.
type documentLine struct {
	Kind       string          `json:"kind"`
	Key        string          `json:"key"`
	Version    uint64          `json:"version"`    // messages applied
	Emitted    uint64          `json:"emitted"`    // events emitted
	Remembered int             `json:"remembered"` // messages in the document's own record
	Pending    []pendingLine   `json:"pending"`
	Size       int             `json:"size"` // bytes in the store
	Value      json.RawMessage `json:"value"`
}

// pendingLine counts events that are not known to be sent. The next write of the document sends them again.
type pendingLine struct {
	At     time.Time `json:"at"`
	Events int       `json:"events"`
}

// collectionLine is what -json prints of a collection.
type collectionLine struct {
	Name        string   `json:"name"`
	View        bool     `json:"view"`
	Kinds       []string `json:"kinds"` // that are folded into it
	Rebuildable bool     `json:"rebuildable"`
}

// keyLine is what -json prints of a document in a list.
type keyLine struct {
	Kind     string    `json:"kind"`
	Key      string    `json:"key"`
	Size     int64     `json:"size"` // bytes in the store
	Modified time.Time `json:"modified"`
}

// checkKind refuses a collection that no program knows, and a name that can't be one.
func (c documentCall) checkKind(verb, kind string, view bool) error {
	all := c.known.collections(view)
	if slices.Contains(all, kind) {
		return nil
	}
	if len(all) > 0 {
		return usage("%s: unknown kind %s; want one of %s", verb, boot.Word(kind), strings.Join(all, ", "))
	}
	if hint := c.unpublished(); hint == "" || storage.CheckName(kind) != nil {
		return usage("%s: unknown kind %s%s", verb, boot.Word(kind), hint)
	}
	return nil // nobody knows any: the store has it or not
}

func checkList(verb string, o options) error {
	if o.prefix != "" && storage.CheckKey(o.prefix) != nil {
		return usage("%s: -prefix can't begin a key", verb)
	}
	return nil
}

func valuesList(ctx context.Context, c *call) error {
	return documentCall{c}.listCollection(ctx, "values list", false)
}

func viewsList(ctx context.Context, c *call) error {
	return documentCall{c}.listCollection(ctx, "views list", true)
}

// listCollection lists the documents of a collection, or all collections.
func (c documentCall) listCollection(ctx context.Context, verb string, view bool) error {
	if len(c.args) == 0 {
		return c.listCollections(view)
	}
	kind := c.args[0]
	if err := c.checkKind(verb, kind, view); err != nil {
		return err
	}
	var rows [][]string
	for info, err := range c.store.Blobs(kind).List(ctx, c.prefix) {
		if err != nil {
			return err
		}
		if info.Key <= c.after {
			continue
		}
		if len(rows) == c.limit {
			_, _ = fmt.Fprintf(c.progress, "Note: there are more. -after %s lists the next ones.\n", boot.Clean(boot.ShellWord(rows[len(rows)-1][0])))
			break
		}
		rows = append(rows, []string{info.Key, fmt.Sprint(info.Size), age(time.Since(info.Modified)) + " ago"})
		if c.json {
			if err := c.out.line(keyLine{kind, info.Key, info.Size, info.Modified.UTC()}); err != nil {
				return err
			}
		}
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("No documents.\n")
	default:
		c.out.table([]string{"KEY", "BYTES", "CHANGED"}, rows)
	}
	return nil
}

// listCollections lists the collections, or the views alone.
func (c documentCall) listCollections(view bool) error {
	folded, isView := map[string]map[string]bool{}, map[string]bool{}
	for _, d := range c.known.all() {
		for _, x := range d.Collections {
			isView[x.Name] = isView[x.Name] || x.View
			folded[x.Name] = foldedInto(folded[x.Name], d, x.Name)
		}
	}
	var rows [][]string
	for _, name := range c.known.collections(view) {
		line := collectionLine{Name: name, View: isView[name], Kinds: slices.Sorted(maps.Keys(folded[name])), Rebuildable: slices.Contains(c.rebuildable(), name)}
		what := "values"
		if line.View {
			what = "view"
		}
		rows = append(rows, []string{name, what, strings.Join(line.Kinds, ", ")})
		if c.json {
			if err := c.out.line(line); err != nil {
				return err
			}
		}
	}
	switch {
	case c.json:
	case len(rows) == 0:
		c.out.printf("No collections are known%s.\n", boot.Clean(c.unpublished()))
	default:
		c.out.table([]string{"KIND", "WHAT", "FOLDS"}, rows)
	}
	return nil
}

// foldedInto adds the kinds that a program folds into a collection.
func foldedInto(kinds map[string]bool, d *catalog.Description, collection string) map[string]bool {
	if kinds == nil {
		kinds = map[string]bool{}
	}
	for _, q := range d.Queues {
		for _, h := range q.Handlers {
			if h.Collection == collection {
				kinds[string(h.Kind)] = true
			}
		}
	}
	return kinds
}

// findDocument reads a document of a collection, by its key or by what the program knows it by.
func (c documentCall) findDocument(ctx context.Context, verb, kind, key string) (d document, found string, size int, err error) {
	if err := storage.CheckKey(key); err != nil {
		return d, "", 0, usage("%s: %w", verb, err)
	}
	names := []string{key}
	if c.Alias != nil {
		names = append(names, c.Alias(key)...)
	}
	for _, name := range names {
		blob, err := c.store.Blobs(kind).Get(ctx, name, "")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err == nil && json.Unmarshal(blob.Body, &d) != nil {
			err = fmt.Errorf("document %s in %s is not one of package values", storage.Quote(name), kind)
		}
		return d, name, len(blob.Body), err
	}
	return d, "", 0, nothing("no document %s in %s", storage.Quote(key), kind)
}

// valuesShow prints a document.
func valuesShow(ctx context.Context, x *call) error {
	c := documentCall{x}
	kind := c.args[0]
	if err := c.checkKind("values show", kind, false); err != nil {
		return err
	}
	d, key, size, err := c.findDocument(ctx, "values show", kind, c.args[1])
	if err != nil {
		return err
	}
	if !c.json {
		c.out.printf("%s\n", indented(d.Value))
		return nil
	}
	line := documentLine{Kind: kind, Key: key, Version: d.Version, Emitted: d.Emitted, Remembered: len(d.Applied) / recordEntry,
		Pending: []pendingLine{}, Size: size, Value: d.Value}
	for _, p := range d.Pending {
		line.Pending = append(line.Pending, pendingLine{p.At, len(p.Events)})
	}
	return c.out.line(line)
}

// viewsShow prints a document of a view as its readers know it.
func viewsShow(ctx context.Context, x *call) error {
	c := documentCall{x}
	kind := c.args[0]
	if err := c.checkKind("views show", kind, true); err != nil {
		return err
	}
	d, key, _, err := c.findDocument(ctx, "views show", kind, c.args[1])
	if err != nil {
		return err
	}
	var folded struct{ View json.RawMessage }
	if json.Unmarshal(d.Value, &folded) != nil || folded.View == nil {
		return usage("views show: %s is not a view; %s values show prints it", kind, c.Command)
	}
	if c.json {
		return c.out.line(map[string]any{"view": kind, "key": key, "value": folded.View})
	}
	c.out.printf("%s\n", indented(folded.View))
	return nil
}
