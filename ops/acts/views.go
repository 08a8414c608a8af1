package acts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A ViewRebuilt is a view that was rebuilt.
type ViewRebuilt struct {
	Values int    `json:"values"` // that it was rebuilt from
	View   string `json:"view"`
}

// A rebuildInput is what rebuilding takes.
type rebuildInput struct {
	view  string
	clear bool
}

func rebuildAct() *act.Act {
	return act.New(act.Act{Noun: "views", Verb: "rebuild", Role: act.Operator, Why: act.May, Reveals: true, About: "rebuild a view from the value objects",
		Here: func(d *act.Desk) bool { return len(d.Rebuild) > 0 },
		More: "Only the program's own binary can do it. Workers may run meanwhile, and repeating it does no harm. Documents that have already " +
			"folded the newest events stay unchanged. An error of the program's code may tell of documents: --reveal shows its text.",
	}, func(in *rebuildInput) []act.Field {
		return []act.Field{
			act.Text(&in.view, "view", "the view").At("VIEW").From(func(_ context.Context, d *act.Desk) []string { return rebuildable(d) }),
			act.Flag(&in.clear, "clear", "delete the view's documents first, if they were folded wrongly; until the end readers see documents missing"),
		}
	}, rebuildView)
}

// rebuildable are the views that the program can rebuild, sorted.
func rebuildable(d *act.Desk) []string { return slices.Sorted(maps.Keys(d.Rebuild)) }

func rebuildView(ctx context.Context, c *act.Call, in *rebuildInput) error {
	r, ok := c.Rebuild[in.view]
	switch {
	case ok:
	case len(c.Rebuild) == 0:
		return act.Usage("%s does not have the code that rebuilds a view; use the program's own binary", c.Command)
	default:
		return act.Usage("unknown view %s; want one of %s", act.Word(in.view), strings.Join(rebuildable(c.Desk), ", "))
	}
	total := 0
	for _, err := range c.Store.Blobs(r.From).List(ctx, "") {
		if err != nil {
			return err
		}
		total++
	}
	if in.clear {
		if err := r.Clear(ctx, c.Channels); err != nil {
			return ofRebuild(c, err)
		}
	}
	stop := watchReads(c, r.From, total)
	n, err := r.Run(ctx, c.Channels)
	stop()
	if err != nil {
		return fmt.Errorf("%w. Run it again: repeating it does no harm", ofRebuild(c, err))
	}
	return c.Say(ViewRebuilt{n, in.view}, "Rebuilt %s from %s.", in.view, act.Count(n, "value"))
}

// ofRebuild is the error of a rebuild. It may be of the program's own code, and tell of documents.
func ofRebuild(c *act.Call, err error) error {
	if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) {
		return fmt.Errorf("the store didn't answer: %w", c.OfCode(err))
	}
	return c.OfCode(err)
}

// watchReads shows how many documents of a collection are read, by the store's count of requests, until stop is called.
func watchReads(c *act.Call, from string, total int) (stop func()) {
	bar, done, ended := c.Begin("Rebuilding", total), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		shown := 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for _, r := range c.Store.Requests() {
				if r.Op == "get" && r.Kind == "blob" && r.Target == from {
					bar.Add(int(r.Count) - shown)
					shown = int(r.Count)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		bar.End()
	}
}
