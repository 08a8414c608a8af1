package acts

import "fmt"

// Severities of a finding.
const (
	Wrong = "wrong" // somebody should do something
	Note  = "note"  // good to know
)

// A Finding is something that doctor has found.
type Finding struct {
	Severity string `json:"severity"`
	// Check is collections, consumers, kinds, lag, lanes, levels, poison, queues, clocks, versions, log, writers, catalog,
	// schedules, guards, counters, gates, locks, pauses, processes, settings, spools, turns or listeners.
	Check   string `json:"check"`
	Queue   string `json:"queue,omitempty"`
	Program string `json:"program,omitempty"`
	Text    string `json:"text"`
	Fix     string `json:"fix"`
}

// waiting is the subject of a sentence on ready messages, and its verb.
func waiting(ready int64) string {
	if ready == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", ready)
}
