// Command web serves the sample: a restaurant's tables, for people and for programs. Without flags it does the whole
// job on one machine: it keeps everything in one file below data/, and runs a worker in its own process.
//
//	go run ./cmd/web
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
	p.About = `The web side of the reservations sample. It takes reservations and shows their results.
Start as many as you like on one store.`
	host.Main(p)
}
