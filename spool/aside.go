package spool

import (
	"slices"
	"time"
)

const asideFor = 10 * time.Minute // how long an entry that was set aside rests until it is tried again

// An aside is an entry that can't be sent although others can.
type aside struct {
	entry *entry
	why   error
	next  time.Time // when it is tried again
}

// asides are the entries that were set aside. The index guards them.
type asides []*aside

// add adds an entry, or notes the new reason of one that was set aside before and reports false.
func (s *asides) add(e *entry, why error, now time.Time) bool {
	for _, a := range *s {
		if a.entry == e {
			a.why = why
			return false
		}
	}
	*s = append(*s, &aside{e, why, now.Add(asideFor)})
	return true
}

// due returns the entries that are to be tried again, and notes when they are the next time.
func (s *asides) due(now time.Time) (due []*entry) {
	for _, a := range *s {
		if !a.next.After(now) {
			a.next = now.Add(asideFor)
			due = append(due, a.entry)
		}
	}
	return due
}

// drop forgets an entry, and reports whether it was set aside.
func (s *asides) drop(e *entry) bool {
	n := len(*s)
	*s = slices.DeleteFunc(*s, func(a *aside) bool { return a.entry == e })
	return len(*s) < n
}
