package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// A shopHistory is all that the audit of processes knows.
type shopHistory struct {
	customers []*customer
	stock     int               // of each item at first, see stockOf
	deeds     []deed            // of the bank and the carrier
	lives     map[string][]line // journals of the workers
	documents map[string]*document
	index     map[string][]process.Entry // rows by instance
	stocks    map[string]stock           // by item
	byOrder   map[string][]deed          // for the checks
}

// A document is that of an instance.
type document struct {
	*process.Stream
	purchase purchase
}

// collect reads the journals and the store.
func (h *shopHistory) collect(ctx context.Context, channels *channel.Channels, looker *process.Looker, dir string) (err error) {
	if h.lives, err = readJournals(dir); err != nil {
		return err
	}
	h.deeds = nil
	for _, service := range []string{bankName, carrierName} {
		deeds, _, err := readDeeds(dir, service)
		if err != nil {
			return err
		}
		h.deeds = append(h.deeds, deeds...)
	}
	h.documents = map[string]*document{}
	for b, err := range channels.Store().Blobs(fulfilment).List(ctx, "") {
		if err != nil {
			return err
		}
		s, err := looker.Stream(ctx, b.Key)
		if err != nil {
			return err
		}
		d := &document{Stream: s}
		text, err := json.Marshal(s.State)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &d.purchase); err != nil {
			return fmt.Errorf("state of %s: %w", b.Key, err)
		}
		h.documents[b.Key] = d
	}
	h.stocks = map[string]stock{}
	all := stocks(channels, h.stock)
	for item, err := range all.Keys(ctx, "", "") {
		if err != nil {
			return err
		}
		s, err := all.Get(ctx, item, "")
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		h.stocks[item] = s.Value
	}
	return h.collectIndex(ctx, looker)
}

// collectIndex reads the rows of the index. A run may go over midnight.
func (h *shopHistory) collectIndex(ctx context.Context, looker *process.Looker) error {
	h.index = map[string][]process.Entry{}
	now := time.Now()
	for entry, err := range looker.Open(ctx) {
		if err != nil {
			return err
		}
		h.index[entry.ID] = append(h.index[entry.ID], entry)
	}
	for _, day := range []time.Time{now.AddDate(0, 0, -1), now} {
		for entry, err := range looker.Ended(ctx, day) {
			if err != nil {
				return err
			}
			h.index[entry.ID] = append(h.index[entry.ID], entry)
		}
	}
	return nil
}

var anOrder = regexp.MustCompile(`order-\d+`)

// about names the instance of a finding.
func (f finding) about() string { return anOrder.FindString(f.what) }

// ofOrder returns the deeds of a kind and a verb for a purchase.
func (h *shopHistory) ofOrder(order, verb string, kind what) (some []deed) {
	for _, d := range h.byOrder[order] {
		if d.Verb == verb && d.What == kind {
			some = append(some, d)
		}
	}
	return some
}
