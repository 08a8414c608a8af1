package main

import (
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/process"
)

// The checks of processes.
const (
	endsAll      = "every instance ends"
	endsFollow   = "an end follows from what happened"
	cancelsHeard = "a cancel is heard" // by the instance, or it says why not
	effectsOnce  = "an effect is made once"
	effectsKept  = "an effect is kept or undone" // kept by what is completed, and undone once by all else
	backwards    = "undo goes backwards"
	streamIsTrue = "the stream is true" // about what was done, and what was undone
	parcelsLast  = "a parcel leaves when all is done"
	stockAddsUp  = "stock adds up"
	indexIsTrue  = "the index is true"
)

// stepsOf are the names of the steps in the plan that have a verb's effect.
func stepsOf(verb string) []string {
	return map[string][]string{charges: {"charge", "charge at once"}, bookings: {"book"}, parcels: {"ship"}}[verb]
}

// audit makes all checks except those of the parent's journal.
func (h *shopHistory) audit() (found []finding) {
	const most = 1000 // nobody reads more
	fault := func(check, format string, args ...any) {
		if len(found) < most {
			found = append(found, finding{check, fmt.Sprintf(format, args...)})
		}
	}
	h.byOrder = map[string][]deed{}
	for _, d := range h.deeds {
		h.byOrder[d.Order] = append(h.byOrder[d.Order], d)
	}
	known := map[string]bool{}
	for _, c := range h.customers {
		known[c.ID] = true
		d := h.documents[c.ID]
		if d == nil {
			fault(endsAll, "%s was started: %v, and has no document", c.ID, c.started)
			continue
		}
		h.auditEnd(c, d, fault)
		h.auditEffects(d, charges, fault)
		h.auditEffects(d, bookings, fault)
		h.auditUndos(d, fault)
		h.auditParcel(d, fault)
		h.auditRow(d, fault)
	}
	for id := range h.documents {
		if !known[id] {
			fault(endsAll, "there is a document of %s, which nobody has started", id)
		}
	}
	for id := range h.index {
		if h.documents[id] == nil {
			fault(indexIsTrue, "there is a row of %s, which has no document", id)
		}
	}
	for order := range h.byOrder {
		if !known[order] {
			fault(effectsKept, "something was done for %s, which nobody has started", order)
		}
	}
	h.auditStocks(fault)
	return found
}

// auditEnd checks that an instance has ended for good, and that it could end so.
func (h *shopHistory) auditEnd(c *customer, d *document, fault fault) {
	if !d.Status.Final() {
		fault(endsAll, "%s is %s: %s", d.ID, d.Status, d.Msg)
		return
	}
	for _, l := range d.Lines {
		if !l.Status.Final() {
			fault(endsAll, "%s is %s, and its step %s is %s", d.ID, d.Status, l.Name, l.Status)
		}
		for _, u := range l.Undos {
			if !u.Status.Final() {
				fault(endsAll, "%s is %s, and the undo of its step %s is %s: %s", d.ID, d.Status, l.Name, u.Status, u.Msg)
			}
		}
	}
	p := d.purchase
	switch {
	case d.Status == process.Completed && (!c.signalled || c.Fate.Poor || c.Fate.Unwelcome):
		fault(endsFollow, "%s is completed; somebody came: %v, %+v", d.ID, c.signalled, c.Fate)
	case d.Status == process.Completed && (!p.Held || p.Receipt == "" || p.Packed != len(c.Lines) || p.Booking == "" || p.Picker == "" || p.Parcel == ""):
		fault(endsFollow, "%s is completed, and its state lacks something: %+v", d.ID, p)
	case d.Status == process.Canceled && !c.cancelled:
		fault(endsFollow, "%s is cancelled by nobody", d.ID)
	case d.Status == process.Aborted && d.Msg == "":
		fault(endsFollow, "%s is aborted for no reason", d.ID)
	}
	if c.cancelled && d.Status == process.Completed && !slices.ContainsFunc(d.Notes, func(n process.Note) bool { return n.Do == cancelRefused }) {
		fault(cancelsHeard, "%s is completed, and has no note of its cancel", d.ID)
	}
}

const cancelRefused = "cancel refused" // the note of an instance that can't be cancelled any more

// auditEffects holds the journal of the bank or the carrier against the end of an instance and against its stream.
func (h *shopHistory) auditEffects(d *document, verb string, fault fault) {
	made, undone := h.ofOrder(d.ID, verb, deedDone), map[string]int{}
	for _, x := range h.ofOrder(d.ID, verb, deedUndone) {
		undone[x.Receipt]++
	}
	wantUndone := 1
	if d.Status == process.Completed {
		wantUndone = 0
	}
	if len(made) > 1 {
		fault(effectsOnce, "%s has %d of %s", d.ID, len(made), verb)
	}
	for _, x := range made {
		if n := undone[x.Receipt]; n != wantUndone {
			fault(effectsKept, "%s is %s (%s), and its %s %s is undone %d times", d.ID, d.Status, d.Msg, verb, x.Receipt, n)
		}
		delete(undone, x.Receipt)
	}
	for receipt := range undone {
		fault(effectsKept, "%s: the %s %s was undone and never made", d.ID, verb, receipt)
	}
	told, kept := 0, false
	for _, l := range d.Lines {
		if !slices.Contains(stepsOf(verb), l.Name) {
			continue
		}
		for _, u := range l.Undos {
			if u.Status == process.Undone {
				told++
			}
		}
		kept = l.Status == process.Completed
	}
	if n := len(h.ofOrder(d.ID, verb, deedUndone)); told != n {
		fault(streamIsTrue, "%s: the stream tells of %d undos of its %s; %d were made", d.ID, told, verb, n)
	}
	if want := len(made) > 0 && wantUndone == 0; kept != want {
		fault(streamIsTrue, "%s: a %s that was kept: %v in the stream, want %v", d.ID, verb, kept, want)
	}
}

// auditUndos checks that the booking is undone before the charge. One that came after its step's end has no order.
func (h *shopHistory) auditUndos(d *document, fault fault) {
	for _, l := range d.Lines {
		for _, u := range l.Undos {
			if u.Late {
				return
			}
		}
	}
	booking, charge := h.ofOrder(d.ID, bookings, deedUndone), h.ofOrder(d.ID, charges, deedUndone)
	if len(booking) > 0 && len(charge) > 0 && booking[0].At > charge[0].At {
		fault(backwards, "%s: its charge was undone before its booking, which was made later", d.ID)
	}
}

func (h *shopHistory) auditParcel(d *document, fault fault) {
	want := 0
	if d.Status == process.Completed {
		want = 1
	}
	if n := len(h.ofOrder(d.ID, parcels, deedDone)); n != want {
		fault(parcelsLast, "%s is %s, and has %d parcels", d.ID, d.Status, n)
	}
}

// auditRow holds a document's row in the index against it.
func (h *shopHistory) auditRow(d *document, fault fault) {
	rows := h.index[d.ID]
	if len(rows) != 1 {
		fault(indexIsTrue, "%s has %d rows", d.ID, len(rows))
		return
	}
	row := rows[0]
	if row.Status != d.Status || row.Error != d.Msg || !row.Ended.Equal(d.Ended) || !row.Created.Equal(d.Created) || len(row.Waits) > 0 {
		fault(indexIsTrue, "%s is %s (%s) since %v; its row is %+v", d.ID, d.Status, d.Msg, d.Ended, row)
	}
}

// auditStocks checks that exactly the purchases that are completed have what they have reserved.
func (h *shopHistory) auditStocks(fault fault) {
	for item, s := range h.stocks {
		if want := stockOf(item, h.stock); s.Left+len(s.Held) != want || s.Left < 0 {
			fault(stockAddsUp, "of %s are %d left and %d held; want %d", item, s.Left, len(s.Held), want)
		}
	}
	held := 0
	for _, c := range h.customers {
		d := h.documents[c.ID]
		if d == nil {
			continue
		}
		has := h.stocks[c.Item].Held[c.ID]
		if has {
			held++
		}
		if want := d.Status == process.Completed; has != want {
			fault(stockAddsUp, "%s is %s, and holds its %s: %v", c.ID, d.Status, c.Item, has)
		}
		for _, l := range d.Lines {
			if l.Name == "reserve" && has != (l.Status == process.Completed) {
				fault(streamIsTrue, "%s: its reservation is %s in the stream, and it holds: %v", c.ID, l.Status, has)
			}
		}
	}
	for _, s := range h.stocks {
		held -= len(s.Held)
	}
	if held != 0 {
		fault(stockAddsUp, "%d are held for nobody", -held)
	}
}
