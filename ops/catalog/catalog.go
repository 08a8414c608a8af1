package catalog

import (
	"encoding/json"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// A Program is a version of a program.
type Program struct {
	// Name is required. A program keeps it for ever.
	Name string `json:"program"`

	// Version tells builds apart. Defaults to "unknown".
	Version string `json:"version"`
}

// A Description is what a version of a program has published.
type Description struct {
	Program
	First       time.Time    `json:"first"` // when it was first published, by the clock of a worker
	Last        time.Time    `json:"last"`  // when it was last published, to the day
	Queues      []Queue      `json:"queues"`
	Kinds       []Kind       `json:"kinds"`
	Collections []Collection `json:"collections"`
	Left        []Left       `json:"left,omitempty"` // queues that an earlier build of the same version had

	// Stored is when the document was last written, by the store's clock. [Read] sets it.
	Stored time.Time `json:"-"`

	// Fault says why the rest is missing. It is empty for a document that could be read.
	Fault string `json:"-"`
}

// A Queue is a queue of the program's routes.
type Queue struct {
	Name     string         `json:"name"`
	Group    bool           `json:"group,omitempty"` // events go to it: it is a subscriber group
	Kinds    []channel.Kind `json:"kinds"`           // that the routes lead to it
	Handlers []Handler      `json:"handlers"`        // that the program has for it; without one it doesn't consume the queue

	Lanes      int  `json:"lanes,omitempty"`      // by tenant; 0: it has none
	Priorities bool `json:"priorities,omitempty"` // it has lanes by priority

	Guard string `json:"guard,omitempty"` // the queue waits while the service of this guard is away
}

// A Left is a queue that no route of the program leads to any more, as a later build of the same version has said.
// Messages may be in the queue still.
type Left struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // when a program published without it, by the clock of a worker

	Lanes      int  `json:"lanes,omitempty"` // as it had them
	Priorities bool `json:"priorities,omitempty"`
}

// A Handler is what the program does with a kind from a queue.
type Handler struct {
	Kind       channel.Kind `json:"kind"`                 // as it is received; an older kind has an entry of its own
	Name       string       `json:"name"`                 // "decide capacity"
	Collection string       `json:"collection,omitempty"` // that it folds into
	Group      string       `json:"group,omitempty"`      // the subscriber group, of a handler by handlers.On
	Once       bool         `json:"once,omitempty"`       // a reaction by handlers.ReactOnce
	Turns      bool         `json:"turns,omitempty"`      // a reaction by handlers.OneAtATime or handlers.ReactInOrder
}

// A Kind is a kind of message that the program knows.
type Kind struct {
	Kind    channel.Kind    `json:"kind"`
	Command bool            `json:"command,omitempty"`
	Queues  []string        `json:"queues"`            // that it goes to
	Example json.RawMessage `json:"example,omitempty"` // a body
	Schema  json.RawMessage `json:"schema,omitempty"`  // of its bodies

	ChoosesID bool `json:"chooses_id,omitempty"` // its type is channel.Identified
	Checks    bool `json:"checks,omitempty"`     // its type is channel.Checked
}

// A Collection is a collection of values, a view, or what has the form of the framework.
type Collection struct {
	Name string `json:"name"`
	View bool   `json:"view,omitempty"`
	Form string `json:"form,omitempty"` // of the framework: "plan" or "schedules"
	Type string `json:"type,omitempty"` // tells the JSON forms of values apart; none for a form of the framework

	Schema json.RawMessage   `json:"schema,omitempty"` // of its values, as they are stored: a view stands in its member view
	States []json.RawMessage `json:"states,omitempty"` // of a plan: the schemas of the states of its versions
}

// Known reports that the description tells what the documents are. That of an older framework doesn't.
func (c Collection) Known() bool { return c.Form+c.Type != "" }

// Noun is what people call the documents' owner.
func (c Collection) Noun() string {
	switch {
	case c.View:
		return "view"
	case c.Form != "":
		return c.Form
	}
	return "collection"
}

// Consumes reports that the program has a handler for a queue.
func (d *Description) Consumes(queue string) bool {
	for _, q := range d.Queues {
		if q.Name == queue {
			return len(q.Handlers) > 0
		}
	}
	return false
}
