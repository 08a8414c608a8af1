// Command worker does the sample's work: it decides reservations, keeps the views and sends the mails. You can start
// as many as you like on one store.
package main

import (
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/sample/reservations/app"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/redis"
)

func main() {
	p := app.Program()
	p.Drivers = storage.Drivers{azure.Driver, redis.Driver} // beside a SQLite file
	p.Web = nil                                             // otherwise the worker needs the verb
	p.About = `A worker of the reservations sample. It decides reservations, keeps the views and sends the mails.
Start as many as you like on one store, each with an -admin address of its own.`
	host.Main(p)
}
