package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
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
	routes, err := channel.NewRoutes(channel.Command[add]("commands"), channel.Command[take]("commands"))
	if err != nil {
		t.Fatal(err)
	}
	var races atomic.Int64
	w := &world{}
	w.store = storagetest.Intercept(newStore(t), func(_ context.Context, _ storagetest.Op, do func() error) error {
		err := do()
		if storage.LostRace(err) {
			races.Add(1)
		}
		return err
	})
	if w.channels, err = channel.New(w.store, routes, "/test"); err != nil {
		t.Fatal(err)
	}
	initial := func(n int) func(string) account { return func(string) account { return account{Sum: n} } }
	accounts := func() *values.Collection[account] {
		return values.New(w.channels, "accounts", values.Config[account]{Initial: initial(7)})
	}
	w.registry = handlers.NewRegistry(w.channels, handlers.Config{})
	handlers.Decide(w.registry, accounts(), func(c add) string { return c.Account },
		func(a account, c add) (account, []channel.Message, error) {
			a.Sum += c.N
			a.Count++
			return a, nil, nil
		})
	handlers.Decide(w.registry, accounts(), func(c take) string { return c.Account },
		func(a account, c take) (account, []channel.Message, error) {
			a.Sum -= c.N
			a.Count++
			return a, nil, nil
		})
	if err := w.registry.Err(); err != nil {
		t.Fatal(err)
	}
	adds, err := channel.NewSender[add](w.channels)
	if err != nil {
		t.Fatal(err)
	}
	takes, err := channel.NewSender[take](w.channels)
	if err != nil {
		t.Fatal(err)
	}
	w.start(t, worker.Config{})
	for range 100 {
		if err := adds.Send(t.Context(), make10(add{Account: "a", N: 3})...); err != nil {
			t.Fatal(err)
		}
		if err := takes.Send(t.Context(), make10(take{Account: "a", N: 1})...); err != nil {
			t.Fatal(err)
		}
	}
	w.drained(t)
	d, err := accounts().Get(context.Background(), "a", "")
	if err != nil || d.Value != (account{Sum: 7 + 2000, Count: 2000}) {
		t.Errorf("got %+v, %v; want 2000 commands", d.Value, err)
	}
	wantInt(t, "lost races", int(races.Load()), 0)
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
	w := newWorld(t, newStore(t))
	type otherValue struct{}
	for want, register := range map[string]func(h *handlers.Registry){
		"Config.Window": func(h *handlers.Registry) {
			registerTake(h, values.New(w.channels, "accounts", values.Config[account]{Window: 5}))
		},
		"types": func(h *handlers.Registry) {
			registerTake(h, values.New(w.channels, "accounts", values.Config[otherValue]{}))
		},
	} {
		routes, err := channel.NewRoutes(channel.Command[add]("commands"), channel.Command[take]("commands"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := channel.New(w.store, routes, "/test")
		if err != nil {
			t.Fatal(err)
		}
		w.channels = c
		h := handlers.NewRegistry(c, handlers.Config{})
		handlers.Decide(h, values.New(c, "accounts", values.Config[account]{}), func(c add) string { return c.Account },
			func(a account, _ add) (account, []channel.Message, error) { return a, nil, nil })
		register(h)
		err = h.Err()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hand it to all that fold into it") {
			t.Errorf("got %v, want a fault that names %s and says what to do", err, want)
		}
	}
}

func registerTake[V any](h *handlers.Registry, c *values.Collection[V]) {
	handlers.Decide(h, c, func(c take) string { return c.Account }, func(v V, _ take) (V, []channel.Message, error) { return v, nil, nil })
}
