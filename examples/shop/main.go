// Command shop sells goods by a process: it reserves them, charges the customer, packs, waits for the courier, and
// ships. When a step fails or comes too late, or the customer cancels, all that was done is taken back.
//
//	go run ./examples/shop
//	curl -i -X PUT localhost:8080/orders/17 --json '{"lines":[{"item":"teapot","count":1}],"cents":4900}'
//	curl localhost:8080/orders/17                                        # where it stands, and what it waits for
//	curl -i -X POST localhost:8080/orders/17/pickup --json '{"courier":"Ada"}'
//	curl -i -X DELETE localhost:8080/orders/17                           # cancels it, unless it is shipped
package main

import (
	"net/http"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

func main() {
	host.Main(host.Program{Name: "shop", Routes: routes, Register: shop{demo{}, demo{}}.register, Web: web})
}

// fulfil is the plan.
func (s shop) fulfil(p *process.Plan[Order]) {
	reserve := process.Ask(p, "reserve", Order.Reserve, Order.Held)
	process.Refused(reserve, Order.NoStock)
	process.UndoAsk(reserve, Order.Release)
	process.Do(p, "bill", s.bill, Order.Billed).Undo(s.unbill)
	process.Do(p, "charge", s.charge, Order.Charged).Within(10 * time.Minute)
	process.Each(p, "pack", Order.Items, pack, Order.LinePacked)
	process.Do(p, "label", s.label, Order.Labelled).Undo(s.recall)
	process.Wait(p, "pickup", Order.PickedUp).Within(48 * time.Hour)
	process.Do(p, "ship", s.ship, Order.Shipped).By("carrier")
	process.Pivot(p, "under way")
	process.Ask(p, "sell", Order.Sell, Order.Sold)
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(process.Route("fulfil", "carrier"),
		channel.Command[Reserve]("stock"), channel.Command[Release]("stock"), channel.Command[Sell]("stock"),
		channel.Event[Held]("fulfil"), channel.Event[NoStock]("fulfil"), channel.Event[Sold]("fulfil"))
}

func (s shop) register(h *handlers.Registry) error {
	stock := values.New(h.Channels(), "stock", values.Config[Stock]{})
	handlers.Decide(h, stock, func(Reserve) string { return warehouse }, Stock.Reserve, Held{}, NoStock{})
	handlers.Decide(h, stock, func(Release) string { return warehouse }, Stock.Release)
	handlers.Decide(h, stock, func(Sell) string { return warehouse }, Stock.Sell, Sold{})
	return process.Register(h, "fulfil", process.Version(1, s.fulfil))
}

func web(a *host.App) (http.Handler, error) {
	orders, id := process.Open[Order](a.Channels, "fulfil"), func(r *http.Request) string { return r.PathValue("order") }
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{order}", host.AcceptStart(a, orders, func(r *http.Request, b Basket) (string, Order) {
		return id(r), Order{ID: ID{id(r)}, Basket: b}
	}))
	mux.Handle("GET /orders/{order}", host.ShowInstance(a, orders, id, nil))
	mux.Handle("POST /orders/{order}/pickup", host.AcceptSignal[PickedUp](a, orders, id))
	mux.Handle("DELETE /orders/{order}", host.AcceptCancel(a, orders, id, func(*http.Request) (string, string) { return "the customer", "" }))
	return mux, nil
}
