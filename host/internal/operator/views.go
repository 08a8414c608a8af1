package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
)

// rebuildable are the views that the program can rebuild, sorted.
func (t tool) rebuildable() []string { return slices.Sorted(maps.Keys(t.Rebuild)) }

// viewsRebuild rebuilds a view.
func viewsRebuild(ctx context.Context, c *call) error {
	name := c.args[0]
	r, ok := c.Rebuild[name]
	switch {
	case ok:
	case len(c.Rebuild) == 0:
		return usage("views rebuild: %s does not have the code that rebuilds a view; use the program's own binary", c.Command)
	default:
		return usage("views rebuild: unknown view %s; want one of %s", boot.Word(name), strings.Join(c.rebuildable(), ", "))
	}
	total := 0
	for _, err := range c.store.Blobs(r.From).List(ctx, "") {
		if err != nil {
			return err
		}
		total++
	}
	if c.clear {
		if err := r.Clear(ctx, c.channels); err != nil {
			return err
		}
	}
	stop := c.watch(r.From, newProgress(c.progress, "Rebuilding", total))
	n, err := r.Run(ctx, c.channels)
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
