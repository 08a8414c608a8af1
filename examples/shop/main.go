// Command shop sells goods by a process of several steps: it reserves goods, charges the customer and ships, within a
// time limit. When a step fails, it takes back those before.
//
//	go run ./examples/shop
//	curl -i -X PUT localhost:8080/orders/17 -d '{"item":"teapot","count":1,"cents":4900}'
//	curl localhost:8080/orders/17
package main

import (
	"net/http"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

func main() {
	host.Main(host.Program{Name: "shop", Routes: routes, Register: outside{demoBank{}, demoCarrier{}}.register, Web: web})
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(
		channel.Command[Place]("orders"), channel.Command[TimeUp]("orders"),
		channel.Event[Held]("orders"), channel.Event[Paid]("orders"), channel.Event[Shipped]("orders"),
		channel.Command[Reserve]("stock"), channel.Command[Release]("stock"), channel.Command[Sold]("stock"),
		channel.Command[Charge]("bank"), channel.Command[Refund]("bank"),
		channel.Command[Ship]("carrier"), channel.Command[Recall]("carrier"),
		channel.Event[Changed]("progress"))
}

func (o outside) register(h *handlers.Registry) error {
	orders := values.New(h.Channels(), "orders", values.Config[Order]{})
	handlers.Decide(h, orders, Place.Key, Order.Place, Changed{}, Reserve{}, TimeUp{})
	handlers.On(h, "orders", orders, Held.Key, Order.Held, Changed{}, Charge{}, Release{})
	handlers.On(h, "orders", orders, Paid.Key, Order.Paid, Changed{}, Ship{}, Release{}, Refund{})
	handlers.On(h, "orders", orders, Shipped.Key, Order.Shipped, Changed{}, Sold{}, Release{}, Refund{})
	handlers.Decide(h, orders, TimeUp.Key, Order.TimeUp, Changed{}, Release{})
	stock := stocks(h.Channels())
	handlers.Decide(h, stock, Reserve.item, Stock.Reserve, Held{})
	handlers.Decide(h, stock, Release.item, Stock.Release)
	handlers.Decide(h, stock, Sold.item, Stock.Sold)
	handlers.React(h, "bank", o.charge)
	handlers.React(h, "bank", o.refund)
	handlers.React(h, "carrier", o.ship)
	handlers.React(h, "carrier", o.recall)
	handlers.OnPoison(h, unpaid, Paid{}, Refund{})
	handlers.OnPoison(h, unsent, Shipped{}, Recall{})
	views.Latest(h, progress(h.Channels()), Changed.Key, Progress.Change)
	return nil
}

func stocks(c *channel.Channels) *values.Collection[Stock] {
	return values.New(c, "stock", values.Config[Stock]{Initial: func(string) Stock { return Stock{Left: onStock} }})
}

func progress(c *channel.Channels) *views.View[Progress] {
	return views.New(c, "progress", views.Config[Progress]{})
}

func web(a *host.App) (http.Handler, error) {
	order := func(r *http.Request) string { return r.PathValue("order") }
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{order}", host.Accept(a, func(r *http.Request, p *Place) { p.Order = order(r) }))
	mux.Handle("GET /orders/{order}", progress(a.Channels).Handler(order, func(_ string, p Progress) any { return p }))
	return mux, nil
}
