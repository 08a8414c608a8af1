package settings_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A change that a dead node holds up says which node that is, and until when: to the one who sets it, and to others.
func TestAChangeSaysForWhomItWaits(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l, link := ledger(t, s), storagetest.NewLink(s)
		a := node(t, s, settings.Config{Name: "a"})
		node(t, link.Store, settings.Config{Name: "far"})
		time.Sleep(poll)
		link.Cut()
		began := time.Now()
		var told, other settings.Wait
		patch := settings.Patch{Set: map[string]jsonText{"seats": jsonText("60"), "half": jsonText("30")}, Waits: func(all []settings.Wait) {
			if time.Since(began) < 3*time.Second { // until a has answered
				return
			}
			c := current(t, s)
			nodes, err := l.Nodes(t.Context())
			must(t, err)
			others := c.WaitsFor(nodes)
			if len(all) != 1 || all[0].Node != "far" || len(others) != 1 || others[0].Node != "far" {
				t.Fatalf("got waits %v, and others %v; want far", all, others)
			}
			if until := others[0].Until; until.Before(began.Add(2*poll)) || until.After(began.Add(3*poll)) {
				t.Errorf("others wait until %v after the beginning; want three polls after its last look", until.Sub(began))
			}
			told, other = all[0], others[0]
		}}

		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := l.Set(short, ada, patch)
		wantErr(t, err, context.DeadlineExceeded, "version 1 is still being checked and waits for far until 00:0", "(in 1m2")
		if told.Other {
			t.Errorf("got %+v; want that it is the change that was set", told)
		}

		_, err = l.Set(t.Context(), ada, patch)
		wantErr(t, err, settings.ErrUnchanged) // it is that of the first one, which is in force by now
		if !told.Other {
			t.Errorf("got %+v; want that another change is waited for", told)
		}
		if time.Now().Before(other.Until) || time.Since(told.Until) > 2*time.Second {
			t.Errorf("far was waited for until %v; want no less than %v, and no more than %v", time.Since(began), other.Until.Sub(began), told.Until.Sub(began))
		}
		wantSeats(t, 60, a)
	})
}
