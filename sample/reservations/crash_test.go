package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

const (
	crashSeats = 4
	crashDate  = "2026-12-24"
)

// A worker stops in its nth storage call, for every n, before or after the call's effect, while one reservation that
// sells the day out goes the whole way. Another worker finishes the work as if nothing had happened.
func TestCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for name, engine := range map[string]func(*storage.Store) *storage.Store{
			"atomic": func(s *storage.Store) *storage.Store { return s },
			"plain":  storagetest.Plain,
		} {
			t.Run(fmt.Sprintf("%s/%s", moment, name), func(t *testing.T) {
				t.Parallel()
				for n, more := int64(1), true; more; n++ {
					synctest.Test(t, func(t *testing.T) {
						file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "r.db")+"?wake=off&sync=normal")
						if err != nil {
							t.Fatal(err)
						}
						defer func() { _ = file.Close() }()
						more = crashAt(t, engine(file), n, moment, 5*time.Millisecond)
					})
					if t.Failed() || n > 300 {
						t.Fatalf("stopped at call %d", n)
					}
				}
			})
		}
	}
}

// The same test on Azurite runs in real time, so a worker stops in each eighth call only, before its effect in one half
// of them and after it in the other. Many trials run at once, each on an account of its own, because most of a trial is
// a wait for the visibility of the dead worker's messages.
func TestCrashAfterCallsOnAzure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for visibilities to end")
	}
	t.Parallel()
	const atOnce, stride = 5, 8 // more at once only make Azurite stall
	for i, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(moment.String(), func(t *testing.T) {
			// Each moment has a server of its own: the remains of other tests make Azurite slow.
			fresh := sync.OnceValues(func() (*azuretest.Server, error) { return azuretest.Start(t), nil })
			var (
				trials sync.WaitGroup
				next   atomic.Int64
				over   atomic.Bool
			)
			for range atOnce {
				trials.Go(func() {
					for !over.Load() && !t.Failed() {
						n := next.Add(1)*stride - stride/2*int64(i)
						t.Run(fmt.Sprint(n), func(t *testing.T) {
							store, err := azure.Open(t.Context(), azuretest.Place(t, fresh, azure.Wipe))
							if err != nil {
								t.Fatal(err)
							}
							defer func() { _ = store.Close() }()
							if !crashAt(t, eager(store), n, moment, time.Second) {
								over.Store(true)
							}
						})
					}
				})
			}
			trials.Wait()
			if n := next.Load(); n < 20/stride+atOnce || n > 300/stride {
				t.Errorf("%d trials; want one for each %dth call of the whole way", n, stride)
			}
		})
	}
}

var azurite = sync.OnceValues(azuretest.Launch)

// eager makes a store whose idle workers poll often.
func eager(s *storage.Store) *storage.Store {
	return storagetest.WithProps(s, func(p *storage.Props) { p.PollInterval = 500 * time.Millisecond })
}

// outbox is a mailer that keeps what it sends.
type outbox struct {
	mu   sync.Mutex
	sent []string // IDs of mails, with the numbers of reservations
}

func (o *outbox) Send(_ context.Context, m reservations.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, number, _ := strings.Cut(m.Text, "No. ")
	number, _, _ = strings.Cut(number, ".")
	o.sent = append(o.sent, m.MessageID+" "+number)
	return nil
}

// crashAt reports whether the worker reached its nth call. The worker polls as often as look says.
func crashAt(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment, look time.Duration) (more bool) {
	channels := sampleChannels(t, s)
	sender, err := channel.NewSender[reservations.MakeReservation](channels)
	if err != nil {
		t.Fatal(err)
	}
	m := reservations.MakeReservation{
		ID: fmt.Sprintf("reservation-%d", n), Date: crashDate, Name: "Ada", Email: "ada@example.org", Quantity: crashSeats,
	}
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}

	var mails outbox
	dying, fuse := storagetest.Crash(s, n, moment)
	stop := work(t, dying, &mails)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !fuse.Fired() && queued(t, s, channels) > 0 {
		<-tick.C
	}
	fired := fuse.Fired()
	stop()
	stop = work(t, s, &mails)
	tick.Reset(time.Second)
	for began := time.Now(); queued(t, s, channels) > 0; <-tick.C {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("call %d: the queues don't get empty", n)
		}
	}
	stop()
	checkBooked(t, s, channels, m, mails.sent, n)
	return fired
}

func sampleChannels(t *testing.T, s *storage.Store) *channel.Channels {
	t.Helper()
	routes, err := reservations.Routes()
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(s, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// work runs a worker on s. stop returns when the worker has ended in any way.
func work(t *testing.T, s *storage.Store, m reservations.Mailer) (stop func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := handlers.NewRegistry(sampleChannels(t, s), handlers.Config{Logger: quiet})
	reservations.Register(h, crashSeats, reservations.Mails{Mailer: m}, numbers(t, s), nil)
	w, err := worker.New(h, worker.Config{Logger: quiet, Visibility: 3 * time.Second, DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx) // a dying worker ends with an error
	}()
	return func() { cancel(); <-ended }
}

// numbers returns a counter, as a new process opens it.
func numbers(t *testing.T, s *storage.Store) *ids.Sequence {
	t.Helper()
	n, err := reservations.Numbers(s, ids.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func queued(t *testing.T, s *storage.Store, c *channel.Channels) int64 {
	t.Helper()
	var n int64
	for _, q := range append([]string{"reservations"}, c.Routes().Queues()...) { // commands first, because they become events
		st, err := s.Queue(q).Stats(t.Context())
		if errors.Is(err, storage.ErrUnavailable) && t.Context().Err() == nil {
			n++ // a busy store: count it as not empty
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []int64{st.Ready, st.InFlight, st.Delayed} {
			n += max(k, -k) // -1: unknown, so count it as not empty
		}
	}
	return n
}

// checkBooked checks that the reservation was decided once, that both views and the ledger have it, that the mail was
// sent, and that a lost calendar is rebuilt equal.
func checkBooked(t *testing.T, s *storage.Store, c *channel.Channels, m reservations.MakeReservation, mails []string, n int64) {
	t.Helper()
	ctx := t.Context()
	object, err := reservations.Capacities(c, crashSeats).Get(ctx, crashDate, "")
	if err != nil || object.Version != 1 || object.Value.Remaining != 0 || len(object.Value.Accepted) != 1 {
		t.Errorf("call %d: value object: got %+v (%v), want one decision", n, object, err)
	}
	status, err := reservations.Statuses(c).Get(ctx, reservations.Key(m.ID))
	if err != nil || status.Status != reservations.Accepted {
		t.Errorf("call %d: status: got %+v (%v), want accepted", n, status, err)
	}
	var rows []string
	for row, err := range reservations.NewLedger(s, nil).On(ctx, crashDate) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row.ID+" "+row.Number)
	}
	if !slices.Equal(rows, []string{m.ID + " " + status.Number}) {
		t.Errorf("call %d: ledger: got %q, want %q with the number of the status, %q", n, rows, m.ID, status.Number)
	}
	if key, err := reservations.Numbered(ctx, s.Table("numbers"), status.Number); err != nil || key != reservations.Key(m.ID) {
		t.Errorf("call %d: number %q: got key %q (%v), want that of %s", n, status.Number, key, err, m.ID)
	}
	if sent := slices.Compact(slices.Clone(mails)); len(sent) != 1 || len(mails) > 2 || !strings.HasSuffix(sent[0], status.Number) {
		t.Errorf("call %d: mails: got %q, want one with No. %s, repeated at most once", n, mails, status.Number)
	}
	for info, err := range s.Blobs("poison").List(ctx, "") {
		t.Errorf("call %d: in the poison queue: %s (%v)", n, info.Key, err)
	}

	months := reservations.Months(c)
	before, err := months.Get(ctx, reservations.MonthOf(crashDate))
	if err != nil || !slices.Equal(before.DisabledDays, []string{crashDate}) {
		t.Errorf("call %d: month: got %+v (%v), want %s disabled", n, before, err, crashDate)
	}
	if err := months.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if lost, err := months.Get(ctx, reservations.MonthOf(crashDate)); err != nil || len(lost.DisabledDays) != 0 {
		t.Errorf("call %d: month after Clear: got %+v (%v), want none disabled", n, lost, err)
	}
	if _, err := reservations.RebuildMonths(ctx, c, crashSeats); err != nil {
		t.Fatal(err)
	}
	after, _, err := months.GetFresh(ctx, reservations.MonthOf(crashDate))
	if err != nil || !slices.Equal(after.DisabledDays, before.DisabledDays) {
		t.Errorf("call %d: rebuilt month: got %+v (%v), want %+v", n, after, err, before)
	}
}
