package operator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
)

// stillThere is how long after its last publication a version of a program counts as running: a worker publishes once
// a day.
const stillThere = 48 * time.Hour

// knowledge is what is known of the programs that use a store.
type knowledge struct {
	published []catalog.Description // that could be read, the last published last
	faulty    []catalog.Description
	own       *catalog.Description // of this binary's program; nil for none
	registry  *handlers.Registry   // of this binary's program; nil for none
	handled   []wire.Handled       // by the registry
	queues    map[string]bool      // that a route of any program leads to, or has led to lately
	names     []string             // of gates, locks or counters, for the completion of a verb that takes one
}

// use takes an open store, and reads what is known of its programs.
func (c *call) use(ctx context.Context, store *storage.Store) error {
	routes, err := c.routes()
	if err != nil {
		return err
	}
	if c.channels, err = channel.New(store, routes, source); err != nil {
		return err
	}
	c.store = store
	if c.Routes != nil {
		c.known.registry = handlers.NewRegistry(c.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		if c.Register != nil {
			err = c.Register(c.known.registry)
		}
		if err = cmp.Or(err, c.known.registry.Err()); err != nil {
			return err
		}
		own := catalog.Describe(c.known.registry, catalog.Program{Name: c.Command})
		c.known.own, c.known.handled = &own, c.known.registry.Inside().Handlers.About()
	}
	return c.readCatalog(ctx)
}

// readCatalog reads what the programs have published.
func (c *call) readCatalog(ctx context.Context) error {
	all, err := catalog.Read(ctx, c.store)
	if err != nil {
		return err
	}
	c.known.published, c.known.faulty = nil, nil
	slices.SortStableFunc(all, func(a, b catalog.Description) int { return a.Last.Compare(b.Last) })
	for _, d := range all {
		if d.Fault != "" {
			c.known.faulty = append(c.known.faulty, d)
		} else {
			c.known.published = append(c.known.published, d)
		}
	}
	c.known.queues = map[string]bool{}
	for _, d := range c.known.all() {
		for _, q := range d.Queues {
			c.known.queues[q.Name] = true
		}
		for _, x := range d.Left {
			c.known.queues[x.Name] = true
		}
	}
	c.store, err = wire.WithLanes(c.store, c.known.lanes())
	return err
}

// routes returns the routes of this binary's program, or none.
func (t tool) routes() (*channel.Routes, error) {
	if t.Routes == nil {
		return channel.NewRoutes()
	}
	return t.Routes()
}

// all returns all descriptions, the most trustworthy first: that of this binary, and then the latest.
func (k *knowledge) all() (all []*catalog.Description) {
	if k.own != nil {
		all = append(all, k.own)
	}
	for i := range slices.Backward(k.published) {
		all = append(all, &k.published[i])
	}
	return all
}

// running returns the versions of programs that have published lately, by name.
func (k *knowledge) running() (all []*catalog.Description) {
	for i := range k.published {
		if d := &k.published[i]; time.Since(d.Last) < stillThere {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *catalog.Description) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.First.Compare(b.First))
	})
	return all
}

// routedNow returns the queues in the routes of the programs as they are: of the versions that run, and of the last one
// of a program that doesn't.
func (k *knowledge) routedNow() map[string]bool {
	all, seen := map[string]bool{}, map[string]bool{}
	for i := range slices.Backward(k.published) {
		d := &k.published[i]
		if seen[d.Name] && time.Since(d.Last) >= stillThere {
			continue
		}
		seen[d.Name] = true
		for _, q := range d.Queues {
			all[q.Name] = true
		}
	}
	return all
}

// routedNext returns the queues in the routes of the newest version of each program that runs, and of the last one of a
// program that doesn't. A queue of older versions alone is left when they go.
func (k *knowledge) routedNext() map[string]bool {
	newest := map[string]*catalog.Description{}
	for i := range k.published {
		newest[k.published[i].Name] = &k.published[i]
	}
	for _, d := range k.running() { // by name, the oldest first
		newest[d.Name] = d
	}
	all := map[string]bool{}
	for _, d := range newest {
		for _, q := range d.Queues {
			all[q.Name] = true
		}
	}
	return all
}

// consumers returns the versions of programs that have a handler for a queue and have published lately.
func (k *knowledge) consumers(queue string) []*catalog.Description {
	return slices.DeleteFunc(k.running(), func(d *catalog.Description) bool { return !d.Consumes(queue) })
}

// kind returns what is known of a kind, best by a program that consumes its queue. It is nil if nobody knows the kind.
func (k *knowledge) kind(kind channel.Kind) *catalog.Kind {
	var second *catalog.Kind
	for _, d := range k.all() {
		i := slices.IndexFunc(d.Kinds, func(x catalog.Kind) bool { return x.Kind == kind })
		if i < 0 {
			continue
		}
		x := &d.Kinds[i]
		if d == k.own || slices.ContainsFunc(x.Queues, d.Consumes) {
			return x
		}
		second = cmp.Or(second, x)
	}
	return second
}

// commands returns the kinds of command that anybody knows, sorted.
func (k *knowledge) commands() []string {
	all := map[string]bool{}
	for _, d := range k.all() {
		for _, x := range d.Kinds {
			if x.Command {
				all[string(x.Kind)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// kinds returns all kinds that anybody knows, sorted.
func (k *knowledge) kinds() []string {
	all := map[string]bool{}
	for _, d := range k.all() {
		for _, x := range d.Kinds {
			all[string(x.Kind)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// handler returns what handles a kind from a queue.
func (k *knowledge) handler(queue string, kind channel.Kind) (catalog.Handler, bool) {
	for _, d := range k.all() {
		for _, q := range d.Queues {
			for _, h := range q.Handlers {
				if q.Name == queue && h.Kind == kind {
					return h, true
				}
			}
		}
	}
	return catalog.Handler{}, false
}

// collections returns the names of the collections, or of those that are views, sorted.
func (k *knowledge) collections(viewsOnly bool) []string {
	all := map[string]bool{}
	for _, d := range k.all() {
		for _, x := range d.Collections {
			if x.View || !viewsOnly {
				all[x.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// versions names programs with their versions: "shop v1, v2; mail v7".
func versions(all []*catalog.Description) string {
	var b strings.Builder
	for i, d := range all {
		switch {
		case i > 0 && all[i-1].Name == d.Name:
			b.WriteString(", " + d.Version)
			continue
		case i > 0:
			b.WriteString("; ")
		}
		b.WriteString(d.Name + " " + d.Version)
	}
	return b.String()
}

// unpublished says what to do where nothing is known.
func (c *call) unpublished() string {
	if len(c.known.published) > 0 || c.known.own != nil {
		return ""
	}
	return fmt.Sprintf("; no program has published what it knows in this store: start a worker of package host, or use the program's own binary in place of %s", c.Command)
}
