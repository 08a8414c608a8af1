package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/process"
)

// madeUpShop is a small history in which nothing is wrong: order-0 is completed, order-1 was cancelled after its
// booking, the charge of order-2 came too late, order-3 had no stock, and order-4 was cancelled when it was too late.
func madeUpShop() *shopHistory {
	h := &shopHistory{stock: 20, documents: map[string]*document{}, index: map[string][]process.Entry{}, stocks: map[string]stock{
		"item-1": {Left: 18, Held: map[string]bool{"order-0": true, "order-4": true}}, rare: {Left: 1},
	}}
	all := func(charged process.Status) []process.Line {
		return []process.Line{{Name: "reserve", Status: charged}, {Name: "charge", Status: charged}, {Name: "pack", Status: process.Completed, Items: 2},
			{Name: "book", Status: charged}, {Name: "picked", Status: process.Completed}}
	}
	back := []process.UndoRow{{Status: process.Undone}}
	h.add("order-0", "item-1", process.Completed, "", append(all(process.Completed), process.Line{Name: "ship", Status: process.Completed}))
	h.add("order-1", "item-1", process.Canceled, "canceled by ada", all(process.Undone))
	for i := range h.documents["order-1"].Lines {
		if l := &h.documents["order-1"].Lines[i]; l.Status == process.Undone {
			l.Undos = back
		}
	}
	h.add("order-2", "item-1", process.Aborted, "no end within 5s", []process.Line{
		{Name: "reserve", Status: process.Undone, Undos: back},
		{Name: "charge at once", Status: process.Aborted, Msg: "no end within 5s", Undos: []process.UndoRow{{Status: process.Undone, Late: true}}},
	})
	h.add("order-3", rare, process.Aborted, "refused: chaos.nostock.v1", []process.Line{{Name: "reserve", Status: process.Aborted, Msg: "refused: chaos.nostock.v1"}})
	h.add("order-4", "item-1", process.Completed, "", append(all(process.Completed), process.Line{Name: "ship", Status: process.Completed}))
	h.documents["order-4"].Notes = []process.Note{{Do: cancelRefused}}
	for i, c := range h.customers {
		c.started, c.signalled, c.cancelled = true, i != 2, i == 1 || i == 4
	}
	for i, order := range []string{"order-0", "order-1", "order-4"} {
		at := int64(10 * i)
		h.deeds = append(h.deeds, deed{At: at + 1, What: deedDone, Verb: charges, Order: order, Receipt: "c" + order},
			deed{At: at + 2, What: deedAgain, Verb: charges, Order: order, Receipt: "c" + order},
			deed{At: at + 3, What: deedDone, Verb: bookings, Order: order, Receipt: "b" + order})
		if order == "order-1" {
			h.deeds = append(h.deeds, deed{At: at + 4, What: deedUndone, Verb: bookings, Order: order, Receipt: "b" + order},
				deed{At: at + 5, What: deedUndone, Verb: charges, Order: order, Receipt: "c" + order})
		} else {
			h.deeds = append(h.deeds, deed{At: at + 6, What: deedDone, Verb: parcels, Order: order, Receipt: "p" + order})
		}
	}
	h.deeds = append(h.deeds, deed{At: 50, What: deedAway, Verb: charges, Order: "order-2"}, deed{At: 51, What: deedDone, Verb: charges, Order: "order-2", Receipt: "c2"},
		deed{At: 52, What: deedUndone, Verb: charges, Order: "order-2", Receipt: "c2"})
	return h
}

// add adds a customer, with document and row.
func (h *shopHistory) add(id, item string, s process.Status, msg string, lines []process.Line) {
	ended := time.Unix(1000, 0)
	c := &customer{purchase: purchase{ID: id, Item: item, Lines: []string{"pot", glass}}}
	h.customers = append(h.customers, c)
	d := &document{Stream: &process.Stream{ID: id, Status: s, Msg: msg, Ended: ended, Lines: lines}, purchase: c.purchase}
	if s == process.Completed {
		d.purchase.Held, d.purchase.Receipt, d.purchase.Packed, d.purchase.Booking, d.purchase.Picker, d.purchase.Parcel = true, "c"+id, 2, "b"+id, "ada", "p"+id
	}
	h.documents[id] = d
	h.index[id] = []process.Entry{{ID: id, Status: s, Error: msg, Ended: ended}}
}

func TestShopAuditorIsContent(t *testing.T) {
	t.Parallel()
	for _, f := range madeUpShop().audit() {
		t.Error(f)
	}
}

// drop removes the deeds of a kind and a verb for a purchase.
func (h *shopHistory) drop(order, verb string, kind what) {
	h.deeds = slices.DeleteFunc(h.deeds, func(d deed) bool { return d.Order == order && d.Verb == verb && d.What == kind })
}

// The auditor finds each kind of fault, under its name.
func TestShopAuditorFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(h *shopHistory)
		want   string // the check
	}{
		"an instance is lost":           {func(h *shopHistory) { delete(h.documents, "order-0") }, endsAll},
		"an instance is open":           {func(h *shopHistory) { h.documents["order-0"].Status = process.InProcess }, endsAll},
		"an instance is stuck":          {func(h *shopHistory) { h.documents["order-1"].Status = process.Stuck }, endsAll},
		"a step is open":                {func(h *shopHistory) { h.documents["order-2"].Lines[1].Status = process.InProcess }, endsAll},
		"an undo is open":               {func(h *shopHistory) { h.documents["order-2"].Lines[1].Undos[0].Status = process.InProcess }, endsAll},
		"an instance of nobody":         {func(h *shopHistory) { h.customers = h.customers[1:] }, endsAll},
		"completed though nobody came":  {func(h *shopHistory) { h.customers[0].signalled = false }, endsFollow},
		"completed without money":       {func(h *shopHistory) { h.customers[0].Fate.Poor = true }, endsFollow},
		"completed without the carrier": {func(h *shopHistory) { h.customers[0].Fate.Unwelcome = true }, endsFollow},
		"completed without a receipt":   {func(h *shopHistory) { h.documents["order-0"].purchase.Receipt = "" }, endsFollow},
		"a line is packed twice":        {func(h *shopHistory) { h.documents["order-0"].purchase.Packed = 3 }, endsFollow},
		"cancelled by nobody":           {func(h *shopHistory) { h.customers[1].cancelled = false }, endsFollow},
		"aborted for no reason":         {func(h *shopHistory) { h.documents["order-3"].Msg = "" }, endsFollow},
		"a cancel is lost":              {func(h *shopHistory) { h.documents["order-4"].Notes = nil }, cancelsHeard},
		"a charge is made twice":        {func(h *shopHistory) { h.deeds = append(h.deeds, h.deeds[0]) }, effectsOnce},
		"a charge is made under two keys": {func(h *shopHistory) {
			h.deeds = append(h.deeds, deed{What: deedDone, Verb: charges, Order: "order-0", Receipt: "c9"})
		}, effectsOnce},
		"a late charge is kept":      {func(h *shopHistory) { h.drop("order-2", charges, deedUndone) }, effectsKept},
		"a booking is kept":          {func(h *shopHistory) { h.drop("order-1", bookings, deedUndone) }, effectsKept},
		"a charge is refunded twice": {func(h *shopHistory) { h.deeds = append(h.deeds, h.deeds[len(h.deeds)-1]) }, effectsKept},
		"a completed one is refunded": {func(h *shopHistory) {
			h.deeds = append(h.deeds, deed{What: deedUndone, Verb: charges, Order: "order-0", Receipt: "corder-0"})
		}, effectsKept},
		"a refund of nothing": {func(h *shopHistory) {
			h.deeds = append(h.deeds, deed{What: deedUndone, Verb: charges, Order: "order-3", Receipt: "c9"})
		}, effectsKept},
		"a charge for nobody":         {func(h *shopHistory) { h.deeds = append(h.deeds, deed{What: deedDone, Verb: charges, Order: "order-9"}) }, effectsKept},
		"the charge is undone first":  {func(h *shopHistory) { h.deeds[8].At = 3 }, backwards},
		"the stream forgets a refund": {func(h *shopHistory) { h.documents["order-2"].Lines[1].Undos = nil }, streamIsTrue},
		"the stream tells of a refund": {func(h *shopHistory) {
			h.documents["order-3"].Lines = []process.Line{{Name: "charge", Status: process.Aborted, Undos: []process.UndoRow{{Status: process.Undone}}}}
		}, streamIsTrue},
		"the stream forgets a charge":      {func(h *shopHistory) { h.documents["order-0"].Lines[1].Status = process.Aborted }, streamIsTrue},
		"the stream forgets a reservation": {func(h *shopHistory) { h.documents["order-0"].Lines[0].Status = process.Undone }, streamIsTrue},
		"a parcel of a cancelled one":      {func(h *shopHistory) { h.deeds = append(h.deeds, deed{What: deedDone, Verb: parcels, Order: "order-1"}) }, parcelsLast},
		"a parcel is missing":              {func(h *shopHistory) { h.drop("order-0", parcels, deedDone) }, parcelsLast},
		"stock is lost":                    {func(h *shopHistory) { h.stocks[rare] = stock{Left: 0} }, stockAddsUp},
		"stock is held for a cancelled one": {func(h *shopHistory) {
			h.stocks["item-1"] = stock{Left: 17, Held: map[string]bool{"order-0": true, "order-1": true, "order-4": true}}
		}, stockAddsUp},
		"stock is not held": {func(h *shopHistory) { h.stocks["item-1"] = stock{Left: 19, Held: map[string]bool{"order-4": true}} }, stockAddsUp},
		"stock is held for nobody": {func(h *shopHistory) {
			h.stocks["item-1"] = stock{Left: 17, Held: map[string]bool{"order-0": true, "order-4": true, "order-9": true}}
		}, stockAddsUp},
		"a row is missing":   {func(h *shopHistory) { delete(h.index, "order-0") }, indexIsTrue},
		"a row too many":     {func(h *shopHistory) { h.index["order-0"] = append(h.index["order-0"], h.index["order-0"]...) }, indexIsTrue},
		"a row of nothing":   {func(h *shopHistory) { h.index["order-9"] = h.index["order-0"] }, indexIsTrue},
		"a row is behind":    {func(h *shopHistory) { h.index["order-0"][0].Status = process.InProcess }, indexIsTrue},
		"a row still waits":  {func(h *shopHistory) { h.index["order-0"][0].Waits = []string{"ship"} }, indexIsTrue},
		"a row's end is off": {func(h *shopHistory) { h.index["order-0"][0].Ended = time.Unix(1001, 0) }, indexIsTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := madeUpShop()
			c.tamper(h)
			if found := h.audit(); !strings.Contains(fmt.Sprint(found), c.want+": ") {
				t.Errorf("got %v, want something about %q", found, c.want)
			}
		})
	}
}

// The time after a kill counts for instances that an agent worked on, up to their next step by anybody.
func TestAfterKillsOfAgents(t *testing.T) {
	t.Parallel()
	r := &shopReport{killed: map[string]int64{"worker-1-7": 100}, shopHistory: &shopHistory{lives: map[string][]line{
		"worker-1-7": {{At: 10, What: stepBegun, Name: "order-1"}, {At: 20, What: stepOver, Name: "order-1"}, {At: 30, What: stepBegun, Name: "order-2"},
			{At: 40, What: stepBegun, Name: "order-3"}},
		"worker-1-8": {{At: 150, What: stepBegun, Name: "order-2"}, {At: 160, What: stepBegun, Name: "order-1"}},
		"worker-2-9": {{At: 90, What: stepBegun, Name: "order-2"}, {At: 140, What: stepBegun, Name: "order-2"}},
	}}}
	if got := r.afterKills(); !slices.Equal(got, times{40}) {
		t.Errorf("got %v, want 40ns: order-1 had no agent, order-3 has no next step", got)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	h := madeUpShop()
	if got, want := h.ends(), `1 canceled, 2 completed, 1 out of time at "charge at once", 1 refused at "reserve"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := h.late(), "1 × charge at once"; got != want {
		t.Errorf("late: got %s, want %s", got, want)
	}
	if got, want := h.steps(), 7+(6+3)+(2+2)+1+7; got != want { // with items and undos
		t.Errorf("steps: got %d, want %d", got, want)
	}
}
