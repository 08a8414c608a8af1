package poisoned

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	leastLooked = 2000 // entries that are read, at least, to find those that fit
	readAtOnce  = 32   // entries that are read together
)

// newest orders entries: the one that was put last is first.
func newest(a, b poison.State) int {
	return cmp.Or(b.Put.Compare(a.Put), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Key, b.Key))
}

// A cursor names a place in the order of entries.
func cursor(e poison.State) string {
	return e.Put.UTC().Format(time.RFC3339Nano) + "/" + e.Queue + "/" + e.Key
}

// CheckCursor checks the text of a cursor.
func CheckCursor(text string) error {
	_, err := parseCursor(text)
	return err
}

func parseCursor(text string) (e poison.State, err error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) == 3 {
		if e.Put, err = time.Parse(time.RFC3339Nano, parts[0]); err == nil {
			e.Queue, e.Key = parts[1], parts[2]
			return e, nil
		}
	}
	return e, errors.New("want the text that a note of the list before has told")
}

// latest reads the entries that were put last, until as many were taken as there may be, or very many were read. So the
// work is bounded, however many entries there are.
func (in *Selection) latest(ctx context.Context, c *act.Call, taken func() int, take func(poison.Entry)) error {
	var all []poison.State
	after, err := parseCursor(in.After)
	if in.After != "" && err != nil {
		return act.UsageOf("after", "%w", err)
	}
	for e, err := range poison.States(ctx, c.Store, in.Queue) {
		if err != nil {
			return err
		}
		if in.After == "" || newest(e, after) > 0 {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, newest)
	most := max(leastLooked, 2*in.Limit)
	for n := 0; n < len(all); n += readAtOnce {
		if n >= most {
			c.Note("only the latest %d of %d messages were looked at.", n, len(all))
			c.Next("after", cursor(all[n-1]))
			return nil
		}
		found, err := read(ctx, c, all[n:min(len(all), n+readAtOnce)])
		if err != nil {
			return err
		}
		for i, m := range found {
			if taken() >= in.Limit {
				last := cursor(all[n+i-1])
				c.Next("after", last)
				return nil
			}
			if m.ETag != "" { // otherwise it is gone
				take(m)
			}
		}
	}
	return nil
}

// read reads entries together. One that is gone has no ETag.
func read(ctx context.Context, c *act.Call, states []poison.State) ([]poison.Entry, error) {
	found := make([]poison.Entry, len(states))
	g, ctx := errgroup.WithContext(ctx)
	for i, x := range states {
		g.Go(func() (err error) {
			if found[i], err = poison.At(c.Channels, x.Queue).Get(ctx, x.Key); errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	return found, g.Wait()
}
