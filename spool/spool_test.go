package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Send returns after the file has the message, and not before.
func TestLaw1DurableBeforeSendReturns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.mood.Store(away)
		w.start(Config{}, func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "put blob" && strings.HasPrefix(op.Resource, "blob "+container+"/") {
					<-release
				}
				return do()
			})
		})
		done := make(chan error, 1)
		go func() {
			_, err := w.send(context.Background(), 1)
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Send returned %v before the file had the message", err)
		default:
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range w.openedBlobs(t) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		worldtest.Want(t, "entries in the file", n, 1)
	})
}

// openedBlobs lists the file by another connection.
func (w *world) openedBlobs(t *testing.T) func(func(storage.BlobInfo, error) bool) {
	t.Helper()
	other := w.openLocal()
	t.Cleanup(func() { _ = other.Close() }) // the test has read what it wants
	return other.Blobs(container).List(t.Context(), "")
}

// Send is back within its budget, whatever the store does, and tries a store that is away no second time.
func TestLaw1WithinTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(silent)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct {
			name string
			ctx  context.Context
			most time.Duration
		}{
			{"a caller with little time", short, time.Second / 2},
			{"a store that is known to be away", t.Context(), 0},
		} {
			began := time.Now()
			if spooled, err := w.send(c.ctx, 1); err != nil || !spooled {
				t.Errorf("%s: spooled %v, error %v", c.name, spooled, err)
			}
			if took := time.Since(began); took > c.most {
				t.Errorf("%s: took %v, want at most %v", c.name, took, c.most)
			}
		}
		w.mood.Store(up)
		settle()
		w.mood.Store(silent)
		began := time.Now()
		w.keep(2, 3)
		worldtest.Want(t, "time of a try", time.Since(began), 2*time.Second)
	})
}

// A caller that leaves during the try gets its error, as without a spool, and nothing is kept.
func TestLaw1ACallerThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(silent)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		spooled, err := w.send(ctx, 1)
		if spooled || !errors.Is(err, gone) {
			t.Errorf("spooled %v, error %v; want the cause", spooled, err)
		}
		w.wantWaiting(0)
	})
}

// Only the store's absence has messages kept. Send returns any other error.
func TestOnlyAnAbsenceIsSpooled(t *testing.T) {
	t.Parallel()
	for kind, want := range map[error]bool{
		storage.ErrUnavailable: true, storage.ErrThrottled: true,
		storage.ErrInvalid: false, storage.ErrTooLarge: false, storage.ErrUnsupported: false, storage.ErrPrecondition: false, channel.ErrRefused: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start(Config{}, nil)
			kept, err := w.spool.Send(t.Context(), []channel.Envelope{worldtest.Envelope("x", note{"a"})}, func(context.Context) error {
				return fmt.Errorf("the store: %w", kind)
			})
			if kept != want || (err == nil) != want {
				t.Errorf("%v: kept %v, error %v; want kept %v", kind, kept, err, want)
			}
		})
	}
}

// All that makes a message the same one stays as it was at the Send.
func TestLaw2TheSameMessage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		ctx := channel.WithTrace(t.Context(), channel.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tenant: "north"})
		m := worldtest.Add{Key: key(1), To: "a", Amount: 7, Note: "café <&> \"\u2028"}
		began := time.Now()
		if err := w.adds.SendAfter(ctx, 2*time.Hour, m); err != nil {
			t.Fatal(err)
		}
		w.wantWaiting(1)
		time.Sleep(time.Hour)
		w.mood.Store(up)
		settle()
		w.wantWaiting(0)
		if early := worldtest.Take(t, w.store, worldtest.Accounts); len(early) > 0 {
			t.Fatalf("%d messages come before they are due", len(early))
		}
		time.Sleep(time.Until(began.Add(2 * time.Hour)))
		got := worldtest.Take(t, w.store, worldtest.Accounts)
		plain := channel.WithTrace(t.Context(), channel.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tenant: "north"})
		if err := worldtest.SenderOf[worldtest.Add](t, w.channels).SendAfter(plain, -1, m); err != nil { // what it looks like without a spool
			t.Fatal(err)
		}
		want := worldtest.Take(t, w.store, worldtest.Accounts)
		if len(got) != 1 || len(want) != 1 {
			t.Fatalf("got %d messages and %d, want one each", len(got), len(want))
		}
		g, x := got[0], want[0]
		if !g.Time.Equal(began) || !g.Since.Equal(began.Add(2*time.Hour)) || !g.Due.Equal(began.Add(2*time.Hour)) {
			t.Errorf("times %v, %v, %v; want those of the send at %v", g.Time, g.Since, g.Due, began)
		}
		x.Time, x.Since, x.Due = g.Time, g.Since, g.Due
		if g.ID != x.ID || g.TraceParent == "" || g.Content() != x.Content() || fmt.Sprint(g) != fmt.Sprint(x) {
			t.Errorf("got %+v\nwant %+v", g, x)
		}
	})
}

// A first try whose answer was lost leaves a message with the same ID.
func TestLaw2AnUnknownOutcomeIsARepeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(lost)
		w.keep(1, 2)
		w.mood.Store(up)
		settle()
		got := w.arrived(worldtest.Accounts)
		if len(got) < 2 || slices.ContainsFunc(got, func(id string) bool { return id != key(1) }) {
			t.Errorf("got %q, want %s at least twice", got, key(1))
		}
	})
}

// Messages arrive in the order of their sends, with those that are sent while the spool drains.
func TestLaw3OldestFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		const before, all = 200, 300
		w.keep(0, before)
		w.slow.Store(int64(100 * time.Millisecond))
		w.mood.Store(up)
		for n := before; n < all; n++ {
			if _, err := w.send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if n%10 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		settle()
		got := w.arrived(worldtest.Accounts)
		if len(got) != all || !slices.IsSorted(got) {
			t.Errorf("got %d messages, sorted %v; want %d in order", len(got), slices.IsSorted(got), all)
		}
		if spooled, err := w.send(t.Context(), all); spooled || err != nil {
			t.Errorf("afterwards: spooled %v, error %v; want it in the store", spooled, err)
		}
	})
}

// A full spool doesn't refuse messages while the store is there.
func TestLaw3AFullSpoolLetsMessagesPast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{MaxBytes: 900}, nil)
		w.bad.Store(notes) // the commands go; the notes don't
		kept, full := int64(0), error(nil)
		for full == nil {
			ctx, spooled := channel.NoteSpooled(t.Context())
			full = w.spool.Channels().Send(ctx, note{"a"})
			kept += spooled()
		}
		if kept == 0 || !errors.Is(full, errFull) {
			t.Fatalf("%d notes kept, then %v; want that it is full", kept, full)
		}
		if spooled, err := w.send(t.Context(), 2); spooled || err != nil {
			t.Errorf("spooled %v, error %v; want the command in the store", spooled, err)
		}
	})
}

// A queue that is away for itself holds up no other.
func TestAQueueThatIsAwayForItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.bad.Store(notes)
		if err := w.spool.Channels().Send(t.Context(), note{"a"}); err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			if _, err := w.send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		worldtest.Want(t, "commands", len(w.arrived(worldtest.Accounts)), 10)
		w.wantWaiting(1)
		w.bad.Store("")
		settle()
		worldtest.Want(t, "notes", len(w.arrived(notes)), 1)
	})
}

// Messages of one Send are in the file together, large ones with their bodies. A document is never kept.
func TestLaw4Units(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		large := strings.Repeat("x", 300<<10)
		c := w.spool.Channels()
		if err := c.Send(t.Context(), worldtest.Add{Key: key(1), To: "a"}, note{large}, channel.After(time.Hour, note{"later"})); err != nil {
			t.Fatal(err)
		}
		n := 0
		for b := range w.openedBlobs(t) {
			if n++; b.Size < 300<<10 {
				t.Errorf("the entry has %d bytes", b.Size)
			}
		}
		worldtest.Want(t, "entries", n, 1)
		before := w.calls.Load()
		_, err := c.SendWith(t.Context(), storage.Write{Container: "docs", Key: "a", Body: []byte("{}")}, note{"with"})
		if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "the store is away since") {
			t.Errorf("SendWith: got %v, want that the store is away", err)
		}
		worldtest.Want(t, "calls of the store", w.calls.Load(), before)
		w.wantWaiting(3)
		w.mood.Store(up)
		settle()
		got := worldtest.Take(t, w.store, notes)
		if len(got) != 1 || got[0].DataRef == "" {
			t.Fatalf("got %d notes, want one that refers to its body", len(got))
		}
		if err := w.channels.Outbox().FetchBody(t.Context(), &got[0]); err != nil || len(got[0].Data) < 300<<10 {
			t.Errorf("the body has %d bytes, error %v", len(got[0].Data), err)
		}
		worldtest.Want(t, "commands", len(w.arrived(worldtest.Accounts)), 1)
		if _, err := c.SendWith(t.Context(), storage.Write{Container: "docs", Key: "a", Body: []byte("{}")}, note{"with"}); err != nil {
			t.Errorf("SendWith afterwards: %v", err)
		}
	})
}

// Messages that a handler sends aren't kept: the handled message comes again.
func TestLaw4HandlersDoNotSpool(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		parent := worldtest.Envelope("parent", note{"a"})
		ctx := wire.WithHandling(t.Context(), &parent, notes, nil)
		if spooled, err := w.send(ctx, 1); spooled || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("spooled %v, error %v; want the store's error", spooled, err)
		}
	})
}

// A spool that is full, by bytes or by age, takes nothing, says so, and loses nothing.
func TestLaw5Bounds(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		fill func(w *world)
		say  string
	}{
		"bytes": {Config{MaxBytes: 2000}, func(w *world) {
			for n := 1; ; n++ {
				if spooled, err := w.send(w.t.Context(), n); err != nil || !spooled {
					return
				}
			}
		}, "the spool is full"},
		"age": {Config{MaxAge: time.Hour}, func(w *world) {
			w.keep(1, 4)
			time.Sleep(time.Hour + time.Second)
		}, "has waited too long"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.start(c.cfg, nil)
				w.mood.Store(away)
				c.fill(w)
				kept := w.spool.Waiting()
				spooled, err := w.send(t.Context(), 1000)
				if spooled || !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), c.say) || w.spool.Takes() == nil {
					t.Errorf("spooled %v, error %v, takes %v; want that %s", spooled, err, w.spool.Takes(), c.say)
				}
				w.mood.Store(up)
				settle()
				worldtest.Want(t, "arrived", int64(len(w.arrived(worldtest.Accounts))), kept)
				worldtest.Want(t, "bytes left", w.spool.State().Bytes, 0)
				if spooled, err := w.send(t.Context(), 1001); spooled || err != nil || w.spool.Takes() != nil {
					t.Errorf("afterwards: spooled %v, error %v, takes %v", spooled, err, w.spool.Takes())
				}
			})
		})
	}
}

// A delayed message that may be in the spool can't be taken back where the store would have to find it.
func TestCancelWhileMessagesWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		if err := w.adds.SendAfter(t.Context(), time.Hour, worldtest.Add{Key: key(1), To: "a"}); err != nil {
			t.Fatal(err)
		}
		w.mood.Store(silent)
		if err := w.adds.Cancel(t.Context(), key(1)); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "cancel again when it is empty") {
			t.Errorf("got %v, want that messages wait", err)
		}
		w.mood.Store(up)
		settle()
		if err := w.adds.Cancel(t.Context(), key(1)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		time.Sleep(2 * time.Hour)
		worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), 0)
	})
}

// A delayed message that was set aside is sent later, so it can't be taken back either: Cancel says so.
func TestCancelOfAMessageThatWasSetAside(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var gone, refuses atomic.Bool
		w.channels = channelsOver(t, storagetest.Intercept(storage.New(w.store.Driver()), func(_ context.Context, op storagetest.Op, do func() error) error {
			switch {
			case gone.Load():
				return op.Fail(storage.ErrUnavailable)
			case refuses.Load() && (op.Name == "send" || op.Name == "commit"):
				return op.Fail(storage.ErrInvalid)
			}
			return do()
		}), routes(t))
		w.start(Config{}, nil)
		gone.Store(true)
		if err := w.adds.SendAfter(t.Context(), time.Hour, worldtest.Add{Key: key(1), To: "a"}); err != nil {
			t.Fatal(err)
		}
		refuses.Store(true)
		gone.Store(false)
		settle()
		if st := w.spool.State(); st.Waiting != 0 || st.Refused != 1 {
			t.Fatalf("got %+v, want one message set aside", st)
		}
		if err := w.adds.Cancel(t.Context(), key(1)); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, channel.ErrNotDelayed) || !strings.Contains(err.Error(), "cancel again when it is empty") {
			t.Errorf("got %v, want that a message is in the spool", err)
		}
		refuses.Store(false)
		time.Sleep(asideFor)
		settle()
		if err := w.adds.Cancel(t.Context(), key(1)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		time.Sleep(2 * time.Hour)
		worldtest.Want(t, "arrived", len(w.arrived(worldtest.Accounts)), 0)
	})
}

// A spool that isn't needed is not touched.
func TestLaw9NothingForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		calls := 0
		w.start(Config{}, func(s *storage.Store) *storage.Store {
			return storagetest.Intercept(s, func(_ context.Context, _ storagetest.Op, do func() error) error {
				calls++
				return do()
			})
		})
		synctest.Wait()
		calls = 0
		before := w.calls.Load() // the start makes one
		for n := range 100 {
			if spooled, err := w.send(t.Context(), n); spooled || err != nil {
				t.Fatalf("spooled %v, error %v", spooled, err)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		worldtest.Want(t, "calls of the file", calls, 0)
		worldtest.Want(t, "calls of the store", w.calls.Load()-before, 100)
		worldtest.Want(t, "log lines", w.log.Count(), 0)
	})
}

// The log tells the beginning and the end of an outage, once each.
func TestOutageIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		for range 2 {
			time.Sleep(time.Hour)
			w.mood.Store(away)
			w.keep(1, 20)
			time.Sleep(30 * time.Second)
			w.mood.Store(up)
			settle()
		}
		worldtest.Want(t, "beginnings", w.log.Count("WARN the store is away"), 2)
		worldtest.Want(t, "ends", w.log.Count("INFO the store is back"), 2)
		worldtest.Want(t, "ends with nothing left", w.log.Count("INFO the store is back", "messages=0"), 0)
		worldtest.Want(t, "lines", w.log.Count(), 4)
		w.mood.Store(away)
		w.keep(1, 2)
		time.Sleep(12 * time.Minute)
		worldtest.Want(t, "reminders", w.log.Count("WARN messages wait in the spool"), 2)
	})
}

// small is a file whose blobs hold little.
type small struct{ driver.Store }

func (s small) Props() driver.Props {
	p := s.Store.Props()
	p.MaxBlob = 1 << 10
	return p
}

// Messages of one Send that the file can't hold get the store's error, not one that blames them.
func TestLaw4AUnitThatIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, func(s *storage.Store) *storage.Store { return storage.New(small{s.Driver()}) })
		w.mood.Store(away)
		part := note{strings.Repeat("x", 600)}
		err := w.spool.Channels().Send(t.Context(), part, part)
		if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "the spool takes 1024 at most") {
			t.Errorf("got %v, want that the store is away and the spool too small", err)
		}
		w.wantWaiting(0)
	})
}
