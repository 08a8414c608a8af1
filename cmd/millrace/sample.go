package main

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
)

// This file is all that the program knows of the sample; the rest works for any system. Put your own system here, as in
// host/internal/boot.

// commands are the commands that send accepts.
func commands() map[channel.Kind]func([]byte) (channel.Message, error) {
	return map[channel.Kind]func([]byte) (channel.Message, error){
		reservations.MakeReservation{}.Kind():   strictly[reservations.MakeReservation],
		reservations.CancelReservation{}.Kind(): strictly[reservations.CancelReservation],
	}
}

// documents are the collections that values show accepts, views included.
func documents() []string { return []string{"capacity", "months", "statuses"} }

const aboutKeys = "In statuses KEY may also be the ID of a reservation."

// otherKey is the key of the document that a person may mean by a key without a document, "" for none.
func otherKey(kind, key string) string {
	if kind == "statuses" {
		return reservations.Key(key)
	}
	return ""
}

const aboutIDs = ", or that of a reservation, for the commands that make and cancel it"

// otherIDs are the IDs of other messages that a person may mean by an ID.
func otherIDs(id string) []string {
	return []string{reservations.MakeReservation{ID: id}.MessageID(), reservations.CancelReservation{ID: id}.MessageID()}
}

// A rebuild makes a view from values.
type rebuild struct {
	from  string                                                // the collection of the values
	clear func(context.Context, *channel.Channels) error        // empties the view
	run   func(context.Context, *channel.Channels) (int, error) // returns the number of values read
}

// rebuilds are the views that can be rebuilt.
func rebuilds() map[string]rebuild {
	return map[string]rebuild{"months": {
		from:  "capacity",
		clear: func(ctx context.Context, c *channel.Channels) error { return reservations.Months(c).Clear(ctx) },
		run: func(ctx context.Context, c *channel.Channels) (int, error) {
			return reservations.RebuildMonths(ctx, c, 0) // the seats count only for dates without a document, which it never reads
		},
	}}
}

func rebuildable() []string { return slices.Sorted(maps.Keys(rebuilds())) }

func commandKinds() []string {
	var kinds []string
	for k := range commands() {
		kinds = append(kinds, string(k))
	}
	slices.Sort(kinds)
	return kinds
}
