package guard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

type payment struct {
	ID string `json:"id"`
}

func (payment) Kind() channel.Kind  { return "test.payment.v1" }
func (p payment) MessageID() string { return p.ID }

// bank is a service that does each payment, and answers all but the first so many.
type bank struct {
	*worldtest.World
	id      string // of the one message, of which there are copies
	effects atomic.Int64
	lost    int64 // answers
	deaf    atomic.Bool
}

func newBank(t *testing.T, verify, once bool, lost int64) *bank {
	b := &bank{id: worldtest.IDAt(time.Now(), 1), lost: lost}
	cfg := guard.Config{Logger: quietLogger(), MaxAge: time.Minute}
	if verify {
		cfg.Verify = func(context.Context, string) (bool, error) {
			if b.deaf.Load() {
				return false, errDown
			}
			return b.effects.Load() > 0, nil
		}
	}
	g := guard.New("bank", cfg)
	b.World = worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, channel.Command[payment]("payments"))
	pay := guard.Around(g, func(context.Context, payment) error {
		if b.effects.Add(1) <= b.lost {
			return errReset
		}
		return nil
	})
	if once {
		handlers.ReactOnce(b.Registry, "payments", pay)
	} else {
		handlers.React(b.Registry, "payments", pay)
	}
	b.Start(worker.Config{Logger: quietLogger()})
	return b
}

// send sends a copy of the message, and waits until it is settled.
func (b *bank) send(wait time.Duration) {
	worldtest.Send(b.World, payment{b.id})
	time.Sleep(wait)
}

// retry sends one message back from the poison queue.
func (b *bank) retry(t *testing.T) {
	t.Helper()
	worldtest.Want(t, "reason", b.Retry("payments"), guard.ReasonUnknown)
	time.Sleep(time.Minute)
}

func (b *bank) want(t *testing.T, what string, effects, poisoned int) {
	t.Helper()
	if e, p := int(b.effects.Load()), len(b.Poisoned("payments")); e != effects || p != poisoned {
		t.Errorf("%s: %d effects and %d poisoned messages, want %d and %d", what, e, p, effects, poisoned)
	}
}

// A copy of a message whose outcome is unknown asks first, although it was never delivered before.
func TestLaw11ACopyAsksFirst(t *testing.T) {
	for name, once := range map[string]bool{"React": false, "ReactOnce": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBank(t, true, once, 1)
				b.send(100 * time.Millisecond)
				b.send(time.Minute)
				b.want(t, "two copies", 1, 0)
			})
		})
	}
}

// A message that comes back from the poison queue asks first.
func TestLaw11ARetryAsksFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBank(t, true, false, 1)
		b.send(10 * time.Millisecond)
		b.deaf.Store(true)           // the question has no answer, either
		time.Sleep(15 * time.Minute) // it is given up by MaxAge
		b.want(t, "before the retry", 1, 1)
		b.deaf.Store(false)
		worldtest.Want(t, "reason", b.Retry("payments"), handlers.ReasonAttempts)
		time.Sleep(time.Minute)
		b.want(t, "after the retry", 1, 0)
	})
}

// Where nobody can be asked, an unknown outcome is repeated by an operator's retry alone, once for each.
func TestLaw11OnlyAnOperatorRepeats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBank(t, false, true, 2)
		b.send(time.Second)
		b.want(t, "the first", 1, 1)
		b.send(time.Minute)
		b.want(t, "a copy", 1, 1)
		b.retry(t)
		b.want(t, "a retry whose outcome is unknown, too", 2, 1)
		b.send(time.Minute)
		b.want(t, "a copy after that", 2, 1)
		b.retry(t)
		b.want(t, "a retry that is done", 3, 0)
		b.send(time.Minute)
		b.want(t, "a copy after that", 3, 0)
	})
}
