package millrace_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// README begins
// Buy is a command: it goes to one queue.
type Buy struct {
	Item string
	N    int
}

// Bought is an event: each subscriber has a queue of its own.
type Bought Buy

// Kind is the stable name on the wire.
func (Buy) Kind() channel.Kind    { return "shop.buy.v1" }
func (Bought) Kind() channel.Kind { return "shop.bought.v1" }

// Stock is a value object: what is left of an item.
type Stock struct{ Left int }

// Buy decides. It is pure, so it can be repeated. A refusal would be an event, too.
func (s Stock) Buy(c Buy) (Stock, []channel.Message, error) {
	if c.N > s.Left {
		return s, nil, nil
	}
	return Stock{Left: s.Left - c.N}, []channel.Message{Bought(c)}, nil
}

// README ends

// README begins
// shop is the program: main calls host.Main(shop()).
func shop() host.Program {
	return host.Program{Name: "shop", Routes: routes, Register: register, Web: web}
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(channel.Command[Buy]("purchases"), channel.Event[Bought]("sold", "mail"))
}

func register(h *handlers.Registry) error {
	stock := values.New(h.Channels(), "stock", values.Config[Stock]{Initial: func(string) Stock { return Stock{Left: 10} }})
	handlers.Decide(h, stock, func(c Buy) string { return c.Item }, Stock.Buy, Bought{})
	views.Project(h, sold(h.Channels()), func(e Bought) string { return e.Item }, func(n int, e Bought) int { return n + e.N })
	handlers.ReactOnce(h, "mail", func(ctx context.Context, e Bought) error {
		fmt.Printf("%d × %s is on its way\n", e.N, e.Item)
		return nil
	})
	return nil
}

func sold(c *channel.Channels) *views.View[int] { return views.New(c, "sold", views.Config[int]{}) }

func web(a *host.App) (http.Handler, error) {
	item := func(r *http.Request) string { return r.PathValue("item") }
	mux := http.NewServeMux()
	mux.Handle("POST /buy", host.Accept[Buy](a, nil)) // 202: durable; it will be decided exactly once
	mux.Handle("GET /sold/{item}", sold(a.Channels).Handler(item, func(_ string, n int) any { return n }))
	return mux, nil
}

// README ends

// Example runs the program in the README, between the marks, until it has sent its mail.
func Example() {
	dir, _ := os.MkdirTemp("", "millrace")
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	p := shop()
	p.Start = func(ctx context.Context, a *host.App) error { return a.Channels.Send(ctx, Buy{Item: "teapot", N: 2}) }
	p.Handlers.Middleware = []handlers.Middleware{func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			err := next(ctx, d)
			if d.Queue == "mail" {
				stop()
			}
			return err
		}
	}}
	host.Run(ctx, host.Process{Args: []string{"-store", "sqlite:" + filepath.Join(dir, "shop.db"), "-addr", "127.0.0.1:0"}}, p)
	// Output: 2 × teapot is on its way
}
