package process

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// A Query says which instances [Looker.Find] looks for. The zero Query is for all that have not ended.
type Query struct {
	Status Status            // only of this one. Defaults to any
	Waits  string            // only those that wait for the step of this name. Defaults to any
	Prefix string            // only those whose IDs begin with it
	Tags   map[string]string // only those with these tags
	Since  time.Time         // also those that have ended since then. Defaults to none of them
	Now    time.Time         // that Since is reckoned from. Defaults to the time of the call
}

// Find yields the instances that a query asks for, as the index has them: first those that have not ended, in the order
// of their IDs, and then day by day back to Since. It reads a row for each open instance of the plan, and for each that
// has ended since then. A part that is stuck is among them only where the query asks for stuck ones.
func (l *Looker) Find(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if !q.Status.Final() && !q.each(l.Open(ctx), yield) {
			return
		}
		if q.Since.IsZero() || q.Status != "" && !q.Status.Final() {
			return
		}
		if q.Now.IsZero() {
			q.Now = time.Now()
		}
		for day := q.Now.UTC(); !day.Before(q.Since.UTC().Truncate(24 * time.Hour)); day = day.AddDate(0, 0, -1) {
			if !q.each(l.Ended(ctx, day), yield) {
				return
			}
		}
	}
}

// each yields the entries that the query asks for. It reports false when no more are wanted.
func (q *Query) each(all iter.Seq2[Entry, error], yield func(Entry, error) bool) bool {
	for x, err := range all {
		if (err != nil || q.wants(x)) && !yield(x, err) {
			return false
		}
	}
	return true
}

// wants reports that the query asks for an instance.
func (q *Query) wants(x Entry) bool {
	switch {
	case !strings.HasPrefix(x.ID, q.Prefix),
		q.Status != "" && x.Status != q.Status,
		q.Waits != "" && !slices.Contains(x.Waits, q.Waits),
		!x.Ended.IsZero() && x.Ended.Before(q.Since):
		return false
	}
	for k, v := range q.Tags {
		if got, ok := x.Tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}
