package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// decided returns an auditor and orders that a web and a worker in this process have acknowledged and decided.
func decided(t *testing.T) (*auditor, []*order) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	orders, seats := newOrders(40, time.Nanosecond, time.Now())
	a, err := newAuditor(store, "", seats, filepath.Join(dir, "mail"))
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	pages, err := site.New(a.channels, site.Config{Logger: quiet, Seats: seats})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(pages)
	t.Cleanup(web.Close)
	a.url = web.URL

	numbers, err := reservations.Numbers(store, ids.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := handlers.NewRegistry(a.channels, handlers.Config{Logger: quiet})
	reservations.Register(h, seats, reservations.Mails{Mailer: mail.NewFolder(a.mails)}, numbers, nil)
	w, err := worker.New(h, worker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	stopped := make(chan error)
	go func() { stopped <- w.Run(working) }()
	j, err := newJournal(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	newClient(web.URL, j).postAll(ctx, orders, 2)
	err = until(ctx, time.Minute, func() (bool, error) {
		n, err := a.left(ctx)
		return n == 0, err
	})
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a, orders
}

func TestAuditorIsContent(t *testing.T) {
	t.Parallel()
	a, orders := decided(t)
	orders[3].acked = false // the web may have accepted an order whose client gave up
	orders = append(orders, &order{MakeReservation: reservations.MakeReservation{ID: channel.NewID(), Date: orders[0].Date}})
	a.audit(t.Context(), orders)
	for _, f := range a.found {
		t.Error(f)
	}
	if a.decided != 40 || a.unacked != 2 || a.stayed != 1 || a.doubled != 0 || a.lost != 0 {
		t.Errorf("got %d decided, %d of %d not acknowledged, %d doubled, %d lost; want 40, 1 of 2, 0, 0", a.decided, a.stayed, a.unacked, a.doubled, a.lost)
	}
}

// renumber changes the number in the receipt of an order.
func renumber(ctx context.Context, a *auditor, o *order, number string) error {
	blobs := a.store.Blobs("statuses")
	b, err := blobs.Get(ctx, reservations.Key(o.ID), "")
	if err != nil {
		return err
	}
	body := regexp.MustCompile(`"number":"[^"]*"`).ReplaceAllLiteral(b.Body, []byte(`"number":"`+number+`"`))
	_, err = blobs.Put(ctx, reservations.Key(o.ID), body, storage.Condition{})
	return err
}

// The auditor finds each kind of fault, under its name.
func TestAuditorFinds(t *testing.T) {
	t.Parallel()
	type tamper func(ctx context.Context, a *auditor, orders []*order) error
	capacity := func(change func(map[string]any)) tamper {
		return func(ctx context.Context, a *auditor, orders []*order) error {
			blobs := a.store.Blobs("capacity")
			b, err := blobs.Get(ctx, orders[0].Date, "")
			if err != nil {
				return err
			}
			var doc map[string]any
			if err := json.Unmarshal(b.Body, &doc); err != nil {
				return err
			}
			change(doc)
			if b.Body, err = json.Marshal(doc); err != nil {
				return err
			}
			_, err = blobs.Put(ctx, orders[0].Date, b.Body, storage.Condition{})
			return err
		}
	}
	for name, c := range map[string]struct {
		tamper       tamper
		want         string // the check
		lost, double int
	}{
		"lost": {func(ctx context.Context, a *auditor, orders []*order) error {
			return a.store.Blobs("statuses").Delete(ctx, reservations.Key(orders[0].ID), storage.Condition{})
		}, decidedOnce, 1, 1}, // the decision belongs to no reservation
		"doubled":  {capacity(func(doc map[string]any) { doc["version"] = doc["version"].(float64) + 1 }), decidedOnce, 0, 1},
		"not told": {capacity(func(doc map[string]any) { doc["version"] = doc["version"].(float64) - 1 }), viewsAreTrue, 0, 0},
		"a seat too many": {capacity(func(doc map[string]any) {
			doc["value"].(map[string]any)["remaining"] = 1
		}), seatsAddUp, 0, 0},
		"not in the ledger": {func(ctx context.Context, a *auditor, orders []*order) error {
			return a.store.Table("reservations").Delete(ctx, orders[0].Date, reservations.Key(orders[0].ID), storage.Condition{})
		}, ledgerIsTrue, 1, 0},
		"only in the ledger": {func(ctx context.Context, a *auditor, orders []*order) error {
			numbers, err := reservations.Numbers(a.store, ids.Config{})
			if err != nil {
				return err
			}
			_, err = reservations.NewLedger(a.store, numbers).Record(ctx, reservations.ReservationAccepted{ID: channel.NewID(), Date: orders[0].Date, Quantity: 1})
			return err
		}, ledgerIsTrue, 0, 1},
		"no number": {func(ctx context.Context, a *auditor, orders []*order) error {
			return renumber(ctx, a, orders[0], "")
		}, numbersFit, 0, 0},
		"one number twice": {func(ctx context.Context, a *auditor, orders []*order) error {
			other, _, err := reservations.Statuses(a.channels).GetFresh(ctx, reservations.Key(orders[1].ID))
			if err != nil {
				return err
			}
			return renumber(ctx, a, orders[0], other.Number)
		}, numbersFit, 0, 1},
		"a number not found": {func(ctx context.Context, a *auditor, orders []*order) error {
			s, _, err := reservations.Statuses(a.channels).GetFresh(ctx, reservations.Key(orders[0].ID))
			if err != nil {
				return err
			}
			return a.store.Table("numbers").Delete(ctx, s.Number, "key", storage.Condition{})
		}, numbersFit, 0, 0},
		"no mail": {func(_ context.Context, a *auditor, _ []*order) error {
			files, err := filepath.Glob(filepath.Join(a.mails, "*.eml"))
			if err != nil {
				return err
			}
			return os.Remove(files[0])
		}, mailsGo, 1, 0},
		"wrong calendar": {func(ctx context.Context, a *auditor, orders []*order) error {
			return a.store.Blobs("months").Delete(ctx, reservations.MonthOf(orders[0].Date), storage.Condition{})
		}, viewsAreTrue, 0, 0},
		"poison": {func(ctx context.Context, a *auditor, _ []*order) error {
			_, err := a.store.Blobs("poison").Put(ctx, "mails/x", []byte(`{"key":"x","reason":"no reason"}`), storage.Condition{})
			return err
		}, poisonHolds, 0, 0},
		"left over": {func(ctx context.Context, a *auditor, _ []*order) error {
			return a.store.Queue("mails").Send(ctx, []storage.Message{{Delay: time.Hour}})
		}, queuesEmpty, 0, 0},
		"no answer": {func(_ context.Context, a *auditor, _ []*order) error {
			a.url = "http://127.0.0.1:1"
			return nil
		}, nothingFails, 40, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, orders := decided(t)
			if err := c.tamper(t.Context(), a, orders); err != nil {
				t.Fatal(err)
			}
			a.audit(t.Context(), orders)
			if !strings.Contains(fmt.Sprint(a.found), c.want+": ") {
				t.Errorf("got %v, want something about %q", a.found, c.want)
			}
			if name != "no answer" && (a.lost != c.lost || a.doubled != c.double) || a.lost < c.lost {
				t.Errorf("got %d lost and %d doubled, want %d and %d", a.lost, a.doubled, c.lost, c.double)
			}
		})
	}
}
