package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
)

// The lines of the journals of coordination.
const (
	numbered what = "number"    // N was taken; it is used after this line
	stored   what = "stored"    // the row of N was put
	collided what = "collision" // the row of N was there, of the life in Text
	begun    what = "begun"     // a function was called with fence N
	alive    what = "alive"     // its context was alive
	over     what = "over"      // it returns
	appended what = "appended"  // its entry Count is in the document; Text is "late" if its lease had ended
	refused  what = "refused"   // by the fence
	adding   what = "adding"    // an Update begins
	added    what = "added"     // it was done
	passed   what = "passed"    // the gate of round N
	sent     what = "sent"      // N listeners took the signal; Text is the error
	heard    what = "heard"     // the life's listener N took the signal
	trouble  what = "trouble"   // an error that disturbances explain
	failed   what = "failed"    // any other error
)

// An entry is a line of a fenced document.
type entry struct {
	Fence int64  `json:"fence"`
	By    string `json:"by"` // life
	Count int64  `json:"count"`
}

// A history is all that the audit of coordination knows.
type history struct {
	lives   map[string][]line // journals
	final   []string          // the lives that were not disturbed any more
	opened  map[int64]int64   // when somebody began to open the gate of a round
	rounds  int64
	next    int64              // of the counter
	rows    map[int64]string   // the life that put the row of a number
	entries map[string][]entry // of the fenced documents
	sums    map[string]int64
}

// collect reads from the store what the children have written.
func (h *history) collect(ctx context.Context, store *storage.Store) error {
	h.rows, h.entries, h.sums = map[int64]string{}, map[string][]entry{}, map[string]int64{}
	for row, err := range store.Table(counterName).Query(ctx, counterName, storage.RowRange{}) {
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(row.Key, 10, 64)
		if err != nil {
			return err
		}
		h.rows[n] = string(row.Data)
	}
	for counter, err := range ids.List(ctx, store) {
		if err != nil {
			return err
		}
		h.next = counter.Next
	}
	for _, name := range []string{logName, leaderName} {
		doc, err := lease.Read(ctx, store.Blobs(documents), name)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if h.entries[name], err = decodeLines[entry](doc.Content); err != nil {
			return fmt.Errorf("document %s: %w", name, err)
		}
	}
	doc, err := lease.Read(ctx, store.Blobs(sumsName), sumsName)
	if err != nil {
		return err
	}
	return json.Unmarshal(doc.Content, &h.sums)
}

// each calls f for each line of a kind.
func (h *history) each(kind what, f func(life string, l line)) {
	for life, lines := range h.lives {
		for _, l := range lines {
			if l.What == kind {
				f(life, l)
			}
		}
	}
}

// count counts the lines of a kind, with a name if one is given.
func (h *history) count(kind what, name string) (n int) {
	h.each(kind, func(_ string, l line) {
		if name == "" || strings.HasPrefix(l.Name, name) {
			n++
		}
	})
	return n
}
