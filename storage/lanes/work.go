package lanes

import (
	"context"

	"github.com/millrace-go/millrace/storage/driver"
)

// committer implements driver.Committer.
type committer struct {
	driver.Committer
	s *store
}

// Commit implements driver.Committer. Sends go to their lanes, and deletions to the lanes of their receipts.
func (c *committer) Commit(ctx context.Context, w driver.Work) (driver.Committed, error) {
	sends, claims := w.Send, w.Delete
	w.Send, w.Delete = make([]driver.Send, len(sends)), make([]driver.Claim, len(claims))
	heated := map[*queue]map[*lane]bool{}
	for i, x := range sends {
		if q := c.s.queues[x.Queue]; q != nil {
			l := q.placer.place(x.Message.Body)
			x.Queue = l.name
			if heated[q] == nil {
				heated[q] = map[*lane]bool{}
			}
			heated[q][l] = true
		}
		w.Send[i] = x
	}
	given := make(map[driver.Claim]driver.Claim, len(claims))
	for i, x := range claims {
		if q := c.s.queues[x.Queue]; q != nil {
			l, inner := split(q.lanes, x.Receipt)
			x = driver.Claim{Queue: l.name, Receipt: inner}
		}
		w.Delete[i], given[x] = x, claims[i]
	}
	done, err := c.Committer.Commit(ctx, w)
	if err != nil {
		return done, err
	}
	for _, x := range claims {
		if q := c.s.queues[x.Queue]; q != nil {
			q.roster.end(x.Receipt)
		}
	}
	for q, lanes := range heated {
		for l := range lanes {
			q.roster.heat(l)
		}
	}
	for i, x := range done.Stale {
		done.Stale[i] = given[x]
	}
	return done, nil
}

// finder implements driver.Finder.
type finder struct {
	driver.Finder
	s *store
}

// Find implements driver.Finder. It looks into all lanes.
func (f *finder) Find(ctx context.Context, name, key string) ([]driver.Delivery, error) {
	q := f.s.queues[name]
	if q == nil {
		return f.Finder.Find(ctx, name, key)
	}
	var all []driver.Delivery
	for _, l := range q.lanes {
		found, err := f.Finder.Find(ctx, l.name, key)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if d.Receipt != "" {
				d.Receipt = l.receipt(d.Receipt)
			}
			all = append(all, d)
		}
	}
	return all, nil
}
