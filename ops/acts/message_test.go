package acts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/draft"
)

// A keeper is a sink that keeps things.
type keeper struct {
	deaf
	thing any
	notes []string
}

func (k *keeper) Thing(object any, _ []act.Part, _ string) error { k.thing = object; return nil }
func (k *keeper) Table(string, []string) error                   { return nil }
func (k *keeper) Row(any, []any) error                           { return nil }
func (k *keeper) Say(any, string) error                          { return nil }
func (k *keeper) Note(text string) error                         { k.notes = append(k.notes, text); return nil }

// Law: the chain of a message is looked for in all queues, as far as a search may, also if what brought the message
// about is gone. A cause in the message's own queue is found, however many queues there are.
func TestLawCausesDontKeepFromTheChain(t *testing.T) {
	t.Parallel()
	var queues []string
	for i := range 150 {
		queues = append(queues, fmt.Sprintf("q-%03d", i))
	}
	s := worldtest.OpenStore(t, "")
	desk, err := act.Open(t.Context(), s, act.Program{Routes: func() (*channel.Routes, error) {
		return channel.NewRoutes(channel.Event[worldtest.Refused](queues...))
	}})
	if err != nil {
		t.Fatal(err)
	}
	kind := channel.KindOf[worldtest.Refused]()
	last := queues[len(queues)-1]
	send := func(queue string, e channel.Envelope) {
		e.Source, e.Kind, e.Data = "/test", kind, []byte("{}")
		if err := draft.Send(t.Context(), desk.Channels, queue, e); err != nil {
			t.Fatal(err)
		}
	}
	send(last, channel.Envelope{ID: "shown", Correlation: "first", Causation: "cause"})
	for i := range 40 { // so the cause is behind the first ones of the queue
		send(last, channel.Envelope{ID: fmt.Sprint("other-", i)})
	}
	send(last, channel.Envelope{ID: "cause", Correlation: "first", Due: time.Now().Add(time.Hour)})
	send(queues[140], channel.Envelope{ID: "sibling", Correlation: "first"})
	r := showMessageActs()[0].Request()
	for name, text := range map[string]string{"queue": last, "id": "shown"} {
		if err := r.Field(name).Set(text); err != nil {
			t.Fatal(err)
		}
	}
	k := new(keeper)
	if err := r.Do(t.Context(), act.NewCall(desk, "ada", k)); err != nil {
		t.Fatal(err)
	}
	shown := k.thing.(MessageShown)
	for step, id := range map[string]string{"chain": "sibling", "cause": "cause"} {
		if !slices.ContainsFunc(shown.Flow, func(s FlowStep) bool { return s.Step == step && s.ID == id && s.State != stateUnseen }) {
			t.Errorf("the flow lacks %s %s: it has %+v, and the notes are %q", step, id, shown.Flow, k.notes)
		}
	}
}
