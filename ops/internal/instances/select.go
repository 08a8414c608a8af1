package instances

import (
	"strings"
	"time"

	"github.com/millrace-go/millrace/process"
)

// finalFor is how far a selection goes back whose status is one of instances that have ended.
const finalFor = 24 * time.Hour

// A Selection selects instances: those that fit all of it.
type Selection struct {
	Status string        // a process.Status
	Stuck  bool          // the status is Stuck
	Waits  string        // the name of the step for which they wait
	Since  time.Duration // they have ended, or got stuck, in this time
	Tags   []string      // K=V
	Prefix string        // of their IDs
}

// Selects reports that something is selected.
func (s *Selection) Selects() bool {
	return s.Stuck || s.Status != "" || s.Waits != "" || s.Since > 0 || s.Prefix != "" || len(s.Tags) > 0
}

// Query is what the selection looks for. usual is the status without one.
func (s *Selection) Query(usual process.Status) process.Query {
	q := process.Query{Status: process.Status(s.Status), Waits: s.Waits, Prefix: s.Prefix, Tags: map[string]string{}, Now: time.Now()}
	for _, tag := range s.Tags {
		k, v, _ := strings.Cut(tag, "=")
		q.Tags[k] = v
	}
	switch {
	case s.Stuck:
		q.Status = process.Stuck
	case s.Status == "":
		q.Status = usual
	}
	if s.Since > 0 {
		q.Since = q.Now.Add(-s.Since)
	} else if q.Status.Final() {
		q.Since = q.Now.Add(-finalFor)
	}
	return q
}
