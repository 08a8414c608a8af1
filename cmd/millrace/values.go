package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	boot "github.com/millrace-go/millrace/host/bridge"
	"github.com/millrace-go/millrace/storage"
)

// recordEntry is the number of bytes that a document's record has for each message it remembers.
const recordEntry = 24

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

// valuesShow prints a document.
func valuesShow(ctx context.Context, c *call) error {
	kind, key := c.args[0], c.args[1]
	if !slices.Contains(documents(), kind) {
		return usage("values show: unknown kind %s; want one of %s", boot.Word(kind), strings.Join(documents(), ", "))
	}
	if err := storage.CheckKey(key); err != nil {
		return usage("values show: %w", err)
	}
	named := key
	blob, err := c.store.Blobs(kind).Get(ctx, key, "")
	if other := otherKey(kind, key); other != "" && errors.Is(err, storage.ErrNotFound) {
		key = other
		blob, err = c.store.Blobs(kind).Get(ctx, key, "")
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nothing("no document %s in %s", storage.Quote(named), kind)
	}
	if err != nil {
		return err
	}
	var d document
	if err := json.Unmarshal(blob.Body, &d); err != nil {
		return fmt.Errorf("decode document %s in %s: %w", storage.Quote(key), kind, err)
	}
	if !c.json {
		c.out.printf("%s\n", indented(d.Value))
		return nil
	}
	line := documentLine{Kind: kind, Key: key, Version: d.Version, Emitted: d.Emitted, Remembered: len(d.Applied) / recordEntry,
		Pending: []pendingLine{}, Size: len(blob.Body), Value: d.Value}
	for _, p := range d.Pending {
		line.Pending = append(line.Pending, pendingLine{p.At, len(p.Events)})
	}
	return c.out.line(line)
}

// viewsRebuild rebuilds a view.
func viewsRebuild(ctx context.Context, c *call) error {
	name := c.args[0]
	r, ok := rebuilds()[name]
	if !ok {
		return usage("views rebuild: unknown view %s; want one of %s", boot.Word(name), strings.Join(rebuildable(), ", "))
	}
	total := 0
	for _, err := range c.store.Blobs(r.from).List(ctx, "") {
		if err != nil {
			return err
		}
		total++
	}
	if c.clear {
		if err := r.clear(ctx, c.channels); err != nil {
			return err
		}
	}
	stop := c.watch(r.from, newProgress(c.progress, "Rebuilding", total))
	n, err := r.run(ctx, c.channels)
	stop()
	if err != nil {
		return fmt.Errorf("%w. Run it again: repeating it does no harm", err)
	}
	if c.json {
		return c.out.line(map[string]any{"view": name, "values": n})
	}
	c.out.printf("Rebuilt %s from %s.\n", name, count(n, "value"))
	return nil
}

// watch shows how many documents of a collection are read, by the store's count of requests, until stop is called.
func (c *call) watch(from string, bar *progress) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	tick := time.NewTicker(barEvery)
	go func() {
		defer close(ended)
		defer tick.Stop()
		shown := 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for _, r := range c.store.Requests() {
				if r.Op == "get" && r.Kind == "blob" && r.Target == from {
					bar.add(int(r.Count) - shown)
					shown = int(r.Count)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		bar.end()
	}
}
