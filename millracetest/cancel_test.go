package millracetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// A bill is opened, nudged after six hours, and paid. Nobody is nudged who has paid.

type (
	openBill struct{ Bill string }
	payBill  struct{ Bill string }
	nudge    struct{ Bill string }
	billPaid struct{ Bill string }
)

func (openBill) Kind() channel.Kind  { return "kit.open-bill.v1" }
func (payBill) Kind() channel.Kind   { return "kit.pay-bill.v1" }
func (nudge) Kind() channel.Kind     { return "kit.nudge.v1" }
func (billPaid) Kind() channel.Kind  { return "kit.bill-paid.v1" }
func (n nudge) MessageID() string    { return "nudge-" + n.Bill }
func (p payBill) MessageID() string  { return "pay-" + p.Bill }
func (p openBill) MessageID() string { return "open-" + p.Bill }

type bill struct{ Opened, Paid, Nudged int }

func (b bill) open(c openBill) (bill, []channel.Message, error) {
	b.Opened++
	return b, []channel.Message{channel.After(6*time.Hour, nudge(c))}, nil
}

func (b bill) pay(c payBill) (bill, []channel.Message, error) {
	b.Paid++
	return b, []channel.Message{billPaid(c)}, nil
}

func (b bill) nudge(nudge) (bill, []channel.Message, error) {
	b.Nudged++
	return b, nil, nil
}

func bills(c *channel.Channels) *values.Collection[bill] {
	return values.New(c, "bills", values.Config[bill]{})
}

func billing() Program {
	return Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(channel.Command[openBill]("bills"), channel.Command[payBill]("bills"),
				channel.Command[nudge]("nudges"), channel.Event[billPaid]("cancels"))
		},
		Register: func(h *handlers.Registry) error {
			c := bills(h.Channels())
			handlers.Decide(h, c, func(c openBill) string { return c.Bill }, bill.open, nudge{})
			handlers.Decide(h, c, func(c payBill) string { return c.Bill }, bill.pay, billPaid{})
			handlers.Decide(h, c, func(c nudge) string { return c.Bill }, bill.nudge)
			nudges, err := channel.NewSender[nudge](h.Channels())
			handlers.React(h, "cancels", func(ctx context.Context, e billPaid) error {
				if err := nudges.Cancel(ctx, nudge(e).MessageID()); !errors.Is(err, channel.ErrNotDelayed) {
					return err
				}
				return nil
			})
			return err
		},
	}
}

// A program that cancels keeps the laws, whether or not the store finds messages.
func TestCancelUnderFaults(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	Simulate(t, func(t *testing.T, s *Sim) {
		s.Start(billing())
		for i := range 6 {
			s.Send(openBill{fmt.Sprint("bill-", i)})
		}
		s.Advance(time.Hour)
		for i := range 3 {
			s.Send(payBill{fmt.Sprint("bill-", i)})
		}
		nudges, err := channel.NewSender[nudge](s.Channels())
		if err != nil {
			t.Fatal(err)
		}
		if err := nudges.Cancel(t.Context(), "nudge-bill-3"); err != nil {
			t.Error(err)
		}
		s.Settle()
		for i, want := range []int{0, 0, 0, 0, 1, 1} {
			if got := Value(t, bills(s.Channels()), fmt.Sprint("bill-", i)); got.Nudged != want || got.Opened != 1 {
				t.Errorf("bill-%d: got %+v, want it opened once and nudged %d times", i, got, want)
			}
		}
	}, 1, 2, 3, 4)
}

// A delayed command that is deleted behind the framework's back is missed, also where another one was cancelled.
func TestLostTimerIsFound(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 2; seed++ { // a store that finds messages, and one that doesn't
		var s *Sim
		simulate(t, &s, seed, func(t *testing.T, s *Sim) {
			s.Start(billing())
			s.Send(openBill{"lost"}, openBill{"paid"})
			s.Advance(2 * time.Hour)
			s.Send(payBill{"paid"})
			s.Advance(2 * time.Hour)
			s.stop()
			s.workers.Wait()
			s.Advance(4 * time.Hour)
			q := s.Store().Driver().(recorded).Store.Queue("nudges") // unseen by the recorder
			ds, err := q.Receive(t.Context(), 32, time.Minute)
			for _, d := range ds {
				if err == nil {
					err = q.Delete(t.Context(), []storage.Receipt{d.Receipt})
				}
			}
			if err != nil || len(ds) == 0 {
				t.Errorf("deleted %d messages: %v", len(ds), err)
			}
			s.keep(1)
		})
		if !says(s, DecidedOnce, `{"Bill":"lost"}`) {
			t.Errorf("seed %d: got %v, want the command that was lost", seed, s.evidence.found)
		}
	}
}

// A program that compensates keeps the laws.
func TestOnPoisonUnderFaults(t *testing.T) {
	t.Parallel()
	refuse := func(b bill, c openBill) (bill, []channel.Message, error) {
		if c.Bill == "bad" {
			return b, nil, handlers.Poison("no such bill", nil)
		}
		return b.open(c)
	}
	Simulate(t, func(t *testing.T, s *Sim) {
		p := billing()
		p.Register = func(h *handlers.Registry) error {
			c := bills(h.Channels())
			handlers.Decide(h, c, func(c openBill) string { return c.Bill }, refuse, nudge{})
			handlers.Decide(h, c, func(c payBill) string { return c.Bill }, bill.pay, billPaid{})
			handlers.Decide(h, c, func(c nudge) string { return c.Bill }, bill.nudge)
			handlers.React(h, "cancels", func(context.Context, billPaid) error { return nil })
			handlers.OnPoison(h, func(m openBill, _ handlers.Poisoned) []channel.Message {
				return []channel.Message{payBill{"instead of " + m.Bill}}
			}, payBill{})
			return nil
		}
		s.Start(p)
		s.ExpectPoison(func(e poison.Entry) bool { return e.Reason == "no such bill" })
		s.Send(openBill{"bad"}, openBill{"good"})
		s.Settle()
		for key, want := range map[string]bill{"bad": {}, "good": {Opened: 1, Nudged: 1}, "instead of bad": {Paid: 1}} {
			if got := Value(t, bills(s.Channels()), key); got != want {
				t.Errorf("%s: got %+v, want %+v", key, got, want)
			}
		}
	}, 1, 2, 3, 4)
}
