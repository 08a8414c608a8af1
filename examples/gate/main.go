// Command gate shows how processes get ready, and then go at once. Eight workers wait at a gate before a backlog of
// jobs. The gate opens, and they number the jobs. Then a table tells when each worker began.
//
//	go run ./examples/gate
//
// The same by hand, with a worker in each of several terminals:
//
//	go build -o gate ./examples/gate
//	./gate prepare                     # closes the gate and sends the jobs
//	./gate worker -admin off -name A   # in the second terminal
//	./gate worker -admin off -name B   # in the third, and so on
//	./gate gates open start            # or: millrace gates open start --store sqlite:data/gate.db
//	./gate result                      # waits until all is done; press Ctrl-C in the other terminals then
//
// A worker that is killed leaves its jobs to the others. A worker that comes after the opening finds the gate open.
//
// In a program of your own, three things make "be ready, then go": a gate as the queue's Turn, whatever takes time in
// Start, and somebody who opens the gate when all are ready.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// start is the name of the gate.
const start = "start"

func main() {
	verb, args := "", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "", "prepare", "result":
		if err := master(verb, args); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			os.Exit(1)
		}
	default: // worker, gates, queues, help, …
		host.Main(program())
	}
}

// program is one worker.
func program() host.Program {
	var h hound
	return host.Program{
		Name: "gate",
		About: "Workers that wait at a gate and then go at once. gate alone starts eight of them; gate prepare and gate result\n" +
			"are for those that you start yourself.",
		Routes:  routes,
		Drivers: storage.Drivers{azure.Driver},
		Flags: func(f *host.Flags) {
			h.name = f.String("name", strconv.Itoa(os.Getpid()), "the `NAME` of this worker in the table")
		},
		Start:    h.getReady,
		Register: func(r *handlers.Registry) error { handlers.React(r, "jobs", h.number); return nil },
		// A worker that holds few jobs leaves some to the others.
		Worker: worker.Config{Concurrency: 8, MaxInHand: 8, Queues: map[string]worker.QueueConfig{"jobs": {Limiter: limiters.Gate(start)}}},
	}
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(channel.Command[Job]("jobs"))
}

// getReady is the place for all that a worker does before it can work. The worker waits for the gate after that.
func (h *hound) getReady(_ context.Context, a *host.App) (err error) {
	h.done = a.Store.Table(table)
	h.numbers, err = ids.Open(a.Store, "jobs", ids.Config{Most: 20, Metrics: a.Metrics, Logger: a.Log})
	if err != nil {
		return err
	}
	a.OnClose(func() error { return h.numbers.Close(context.Background()) }) // gives back the numbers in hand
	a.Say("%s is ready.", *h.name)
	return nil
}
