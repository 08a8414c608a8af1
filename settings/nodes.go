package settings

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

const silence = 3 // a row that stays the same for so many polls is a dead node's

// A Node is what a node says of itself in its row.
type Node struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`              // [Ledger.Nodes] adds the beginning of the ID where several have it
	Poll    int64           `json:"poll"`              // milliseconds between its looks, at most
	Beats   int64           `json:"beats"`             // looks so far
	At      time.Time       `json:"at"`                // of the last look, by its own clock
	Epoch   int64           `json:"epoch"`             // of the current document that it saw last
	Version int64           `json:"version"`           // what it runs; 0: its defaults
	Since   time.Time       `json:"since"`             // when it applied that, by its own clock
	Source  Source          `json:"source"`            // where it had that from
	Verdict *Verdict        `json:"verdict,omitempty"` // on the last candidate that it saw
	Fault   string          `json:"fault,omitempty"`   // why it doesn't run the version in force
	Waiting []string        `json:"waiting,omitempty"` // settings that wait for its restart
	Values  json.RawMessage `json:"values,omitempty"`  // what it runs, defaults included; none if that is too large
	Secrets []string        `json:"secrets,omitempty"` // which are references to secrets; * is each member of a map or list
	Stages  []Stage         `json:"stages,omitempty"`  // its Config.Stages
	Health  *Health         `json:"health,omitempty"`  // while a change is rolled out
}

// A Verdict is a node's answer to a candidate.
type Verdict struct {
	Version int64  `json:"version"`
	Yes     bool   `json:"yes"`
	Why     string `json:"why,omitempty"` // not
}

// says returns the node's answer to a version, and whether it has given one.
func (n Node) says(version int64) (Verdict, bool) {
	if n.Verdict == nil || n.Verdict.Version != version {
		return Verdict{}, false
	}
	return *n.Verdict, true
}

// silence is for how long its row has been the same when the node counts as dead.
func (n Node) silence() time.Duration { return silence * time.Duration(n.Poll) * time.Millisecond }

// parseNode reads a node's row. Members that a newer release has added are passed over.
func parseNode(key string, data []byte) (Node, error) {
	n, err := jsonform.DecodeNewer[Node](data)
	if err == nil && (n.ID != key || n.Poll < minPoll.Milliseconds() || n.Poll > maxPoll.Milliseconds()) {
		err = fmt.Errorf("%w: this is no node's row", storage.ErrInvalid)
	}
	if h := n.Health; err == nil && h != nil && (h.Before != nil && !h.Before.valid() || h.Since != nil && !h.Since.valid()) {
		err = fmt.Errorf("%w: its numbers can't be right", storage.ErrInvalid)
	}
	if err == nil {
		err = checkStages(n.Stages)
	}
	return n, err
}
