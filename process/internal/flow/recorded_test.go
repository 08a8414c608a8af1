package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
)

// recorded is an instance in the middle of something, as an engine has left it, and what became of it.
type recorded struct {
	Now   time.Time                 `json:"now"`
	Docs  map[string]jsontext.Value `json:"documents"`
	Queue []queued                  `json:"messages"`
	Asked []string                  `json:"asked,omitempty"` // reply addresses of commands
	Want  outcome                   `json:"want"`
}

type queued struct {
	At   time.Time      `json:"at"`
	Type string         `json:"type"`
	Body jsontext.Value `json:"body"`
}

// outcome is what a later engine must bring about: statuses, and what agents were asked, with which keys.
type outcome struct {
	Status map[string]Status `json:"status"`
	State  jsontext.Value    `json:"state,omitempty"`
	Begins []string          `json:"begins,omitempty"`
}

const documents = "testdata/documents1"

// Law 13: documents of each shape that an earlier engine has written are carried on to the end by this one, with the
// keys that they had. A new shape is recorded by MILLRACE_RECORD=1; files that there are never change.
func TestRecordedDocuments(t *testing.T) {
	t.Parallel()
	for _, x := range shapes() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(documents, x.name+".json")
			if _, err := os.Stat(file); os.IsNotExist(err) && os.Getenv("MILLRACE_RECORD") != "" {
				record(t, file, x)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r recorded
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, x.plan)
			load(t, w, r)
			x.goOn(w)
			if got := outcomeOf(w); string(encoded(got)) != string(encoded(r.Want)) {
				t.Errorf("got  %s\nwant %s", encoded(got), encoded(r.Want))
			}
		})
	}
}

// record brings an instance to where it is to be recorded, and writes it with what becomes of it.
func record(t *testing.T, file string, x shape) {
	t.Helper()
	w := newWorld(t, x.plan)
	x.until(w)
	r := recorded{Now: w.now, Docs: map[string]jsontext.Value{}}
	for id, raw := range w.keeper.docs {
		r.Docs[id] = raw
	}
	for _, m := range w.queue {
		r.Queue = append(r.Queue, queued{m.at, strings.TrimPrefix(fmt.Sprintf("%T", m.m), "flow."), encoded(m.m)})
	}
	for _, m := range w.asked {
		r.Asked = append(r.Asked, m.ReplyTo)
	}
	again := newWorld(t, x.plan)
	load(t, again, r)
	x.goOn(again)
	r.Want = outcomeOf(again)
	var form bytes.Buffer
	if err := json.Indent(&form, encoded(r), "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(form.Bytes(), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, w *world, r recorded) {
	t.Helper()
	w.now = r.Now
	for id, raw := range r.Docs {
		d := decoded(raw)
		if d.Print != "" {
			d.Print = w.keeper.whole.Print // the fingerprint's form is not the documents'
		}
		w.keeper.docs[id] = encoded(d)
	}
	for _, x := range r.Queue {
		w.queue = append(w.queue, sent{x.At, message(t, x)})
	}
	for _, address := range r.Asked {
		w.asked = append(w.asked, wrapped(address))
	}
}

// message reads a message that was under way.
func message(t *testing.T, x queued) channel.Message {
	t.Helper()
	switch x.Type {
	case "Begin":
		return read[Begin](t, x.Body)
	case "Start":
		return read[Start](t, x.Body)
	case "Done":
		return read[Done](t, x.Body)
	case "Alarm":
		return read[Alarm](t, x.Body)
	case "Act":
		return read[Act](t, x.Body)
	case "Record":
		return read[Record](t, x.Body)
	}
	return asked{x.Type}
}

func read[M any](t *testing.T, raw jsontext.Value) M {
	t.Helper()
	var m M
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func outcomeOf(w *world) outcome {
	x := outcome{Status: map[string]Status{}, State: w.doc().State}
	for id := range w.keeper.docs {
		x.Status[id] = w.keeper.get(id).Status
	}
	for i, b := range w.begins {
		x.Begins = append(x.Begins, fmt.Sprintf("%s attempt %d key %s", w.journal[i], b.Attempt, b.Key))
	}
	return x
}
