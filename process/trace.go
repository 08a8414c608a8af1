package process

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// traceEvent is an event of the trace format that Chrome and Perfetto read. Times are in microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	At       int64          `json:"ts"`
	Took     *int64         `json:"dur,omitempty"`
	Document int            `json:"pid"`
	Line     int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTrace writes the stream's timeline as Chrome trace JSON, which Perfetto (https://ui.perfetto.dev) shows: a
// process for each document, a thread for each line, and a slice for each [Bar].
func (s *Stream) WriteTrace(w io.Writer, now time.Time) error {
	t := s.Timeline(now)
	micros := func(x time.Time) int64 { return x.Sub(t.From).Microseconds() }
	documents := map[string]int{}
	var all []traceEvent
	name := func(what string, pid, tid int, args map[string]any) {
		all = append(all, traceEvent{Name: what, Phase: "M", Document: pid, Line: tid, Args: args})
	}
	for i := range s.Lines {
		x := &s.Lines[i]
		pid, known := documents[x.Ref]
		if !known {
			pid = len(documents) + 1
			documents[x.Ref] = pid
			name("process_name", pid, 0, map[string]any{"name": x.Ref})
			name("process_sort_index", pid, 0, map[string]any{"sort_index": pid})
		}
		name("thread_name", pid, i+1, map[string]any{"name": x.ID + " " + x.Name})
		name("thread_sort_index", pid, i+1, map[string]any{"sort_index": i})
		for _, b := range t.Rows[i].Bars {
			took := b.To.Sub(b.From).Microseconds()
			args := map[string]any{"id": x.ID, "status": x.Status, "critical": t.Rows[i].Critical}
			addArgs(args, x, b)
			all = append(all, traceEvent{Name: sliceName(x, b), Category: string(b.Is), Phase: "X", At: micros(b.From), Took: &took, Document: pid, Line: i + 1, Args: args})
		}
	}
	for _, n := range s.Notes {
		what := n.Do
		if n.Path != "" {
			what += " " + n.Path
		}
		all = append(all, traceEvent{Name: what, Category: "act", Phase: "i", At: micros(n.At), Document: 1, Line: 1, Scope: "p", Args: map[string]any{"by": n.By, "why": n.Why}})
	}
	data, err := json.Marshal(map[string]any{
		"traceEvents": all, "displayTimeUnit": "ms",
		"otherData": map[string]any{"plan": s.Plan, "id": s.ID, "version": s.Version, "status": s.Status, "began": t.From.UTC(), "missing": s.Missing},
	})
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("process: trace of %s: %w", s.ID, err)
	}
	return nil
}

// sliceName is what a slice shows: the step, and what is special about this part of its time.
func sliceName(x *Line, b Bar) string {
	switch {
	case b.Is == Waits || b.Is == Undoes || b.Is == Asks:
		return x.Name + " " + string(b.Is)
	case b.Attempt > 1 || b.Failed != "":
		return fmt.Sprintf("%s attempt %d", x.Name, b.Attempt)
	}
	return x.Name
}

// addArgs adds what a slice tells when it is selected.
func addArgs(args map[string]any, x *Line, b Bar) {
	if b.Attempt > 0 {
		args["attempt"] = b.Attempt
	}
	if b.Failed != "" {
		args["failed"] = b.Failed
	}
	if b.Open {
		args["open"] = true
	}
	if x.Topic != "" {
		args["topic"] = x.Topic
	}
	if x.Worker != "" && b.Is == Works {
		args["worker"] = x.Worker
	}
}
