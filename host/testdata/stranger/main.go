// Command shop is a program whose author has written a driver, too.
package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage"

	"example.com/stranger/shelf"
)

type lend struct {
	ID string `json:"id"`
}

func (l lend) MessageID() string { return l.ID }
func (lend) Kind() channel.Kind  { return "books.lend.v1" }

func main() {
	host.Main(host.Program{
		Name:    "shop",
		Drivers: storage.Drivers{shelf.Driver},
		Routes:  func() (*channel.Routes, error) { return channel.NewRoutes(channel.Command[lend]("lends")) },
		Register: func(r *handlers.Registry) error {
			handlers.React(r, "lends", func(_ context.Context, l lend) error { fmt.Println("lent", l.ID); return nil })
			return nil
		},
		Web: func(a *host.App) (http.Handler, error) { return host.Accept[lend](a, nil), nil },
	})
}
