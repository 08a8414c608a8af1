// Package viewstest checks that projections give the same view for events in any order, and for repeats.
//
//	viewstest.OrderFree(t, func() Seats { return Seats{} }, fold, events) // for views.Project
//	viewstest.Latest(t, func() Days { return Days{} }, fold, events)      // for views.Latest
//
// Both fold the events in many orders, and fail the test when two orders give different views.
package viewstest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-go/millrace/channel"
)

// An Event is an event as it reaches a projection.
type Event struct {
	Message  channel.Message
	Source   string // the source that emitted it
	Sequence uint64 // its number among the source's events
}

// OrderFree checks a fold that is registered by views.Project. It folds the events in many orders, each event once, as
// the replay record guarantees. It fails the test when two orders give different views.
func OrderFree[V any](t testing.TB, initial func() V, fold func(V, channel.Message) V, events []Event) {
	t.Helper()
	check(t, initial, func(v V, _ map[string]uint64, e Event) V { return fold(v, e.Message) }, events, false)
}

// Latest checks a fold that is registered by views.Latest. It folds the events in many orders and with repeats. As the
// view does, it leaves out an event that is older than what came from its source. It fails the test when two orders
// give different views.
func Latest[V any](t testing.TB, initial func() V, fold func(V, channel.Message) V, events []Event) {
	t.Helper()
	check(t, initial, func(v V, newest map[string]uint64, e Event) V {
		if e.Sequence <= newest[e.Source] {
			return v
		}
		newest[e.Source] = e.Sequence
		return fold(v, e.Message)
	}, events, true)
}

const orders = 200

func check[V any](t testing.TB, initial func() V, fold func(V, map[string]uint64, Event) V, events []Event, repeat bool) {
	t.Helper()
	run := func(order []Event) string {
		v, newest := initial(), map[string]uint64{}
		for _, e := range order {
			v = fold(v, newest, e)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("encode the view: %v", err)
		}
		return string(b)
	}
	want := run(events)
	for seed := range uint64(orders) {
		r := rand.New(rand.NewPCG(seed, 0))
		order := append([]Event(nil), events...)
		if repeat {
			for range events {
				order = append(order, events[r.IntN(len(events))])
			}
		}
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if got := run(order); got != want {
			t.Fatalf("the view depends on the order of its events\n got %s\nwant %s\norder %s", got, want, describe(order))
		}
	}
}

func describe(order []Event) string {
	s := ""
	for _, e := range order {
		s += fmt.Sprintf("\n\t%s #%d %s %+v", e.Source, e.Sequence, e.Message.Kind(), e.Message)
	}
	return s
}
