package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// take is another command for accounts.
type take struct {
	Account string `json:"account"`
	N       int    `json:"n"`
}

func (take) Kind() channel.Kind { return "test.take.v1" }

// Two collections of one name are one. Commands for one document, decided partly through the one and partly through the
// other, lose no race against one another.
func TestOneNameIsOneCollection(t *testing.T) {
	t.Parallel()
	var races atomic.Int64
	store := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, _ storagetest.Op, do func() error) error {
		err := do()
		if storage.LostRace(err) {
			races.Add(1)
		}
		return err
	})
	w := newBare(t, store, channel.Command[Add]("accounts"), channel.Command[take]("accounts"))
	initial := func(n int) func(string) Account { return func(string) Account { return Account{Balance: n} } }
	accounts := func() *values.Collection[Account] {
		return values.New(w.Channels, "accounts", values.Config[Account]{Initial: initial(7)})
	}
	handlers.Decide(w.Registry, accounts(), Add.Subject,
		func(a Account, c Add) (Account, []channel.Message, error) {
			a.Balance += c.Amount
			a.Count++
			return a, nil, nil
		})
	handlers.Decide(w.Registry, accounts(), func(c take) string { return c.Account },
		func(a Account, c take) (Account, []channel.Message, error) {
			a.Balance -= c.N
			a.Count++
			return a, nil, nil
		})
	if err := w.Registry.Err(); err != nil {
		t.Fatal(err)
	}
	w.Start(worker.Config{})
	for range 100 {
		worldtest.Send(w.World, make10(Add{To: "a", Amount: 3})...)
		worldtest.Send(w.World, make10(take{Account: "a", N: 1})...)
	}
	w.WaitUntilIdle()
	d, err := accounts().Get(context.Background(), "a", "")
	if err != nil || d.Value != (Account{Balance: 7 + 2000, Count: 2000}) {
		t.Errorf("got %+v, %v; want 2000 commands", d.Value, err)
	}
	worldtest.Want(t, "lost races", int(races.Load()), 0)
}

func make10[T any](x T) []T {
	all := make([]T, 10)
	for i := range all {
		all[i] = x
	}
	return all
}

// Two collections of one name that differ are a fault at the start. The error says what to do.
func TestOneNameWithTwoConfigs(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	var w *world
	type otherValue struct{}
	for want, register := range map[string]func(h *handlers.Registry){
		"Config.Window": func(h *handlers.Registry) {
			registerTake(h, values.New(w.Channels, "accounts", values.Config[Account]{Window: 5}))
		},
		"types": func(h *handlers.Registry) {
			registerTake(h, values.New(w.Channels, "accounts", values.Config[otherValue]{}))
		},
	} {
		w = newBare(t, s, channel.Command[Add]("accounts"), channel.Command[take]("accounts"))
		handlers.Decide(w.Registry, values.New(w.Channels, "accounts", values.Config[Account]{}), Add.Subject,
			func(a Account, _ Add) (Account, []channel.Message, error) { return a, nil, nil })
		register(w.Registry)
		err := w.Registry.Err()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hand it to all that fold into it") {
			t.Errorf("got %v, want a fault that names %s and says what to do", err, want)
		}
	}
}

func registerTake[V any](h *handlers.Registry, c *values.Collection[V]) {
	handlers.Decide(h, c, func(c take) string { return c.Account }, func(v V, _ take) (V, []channel.Message, error) { return v, nil, nil })
}
