// Command millrace is the operator's command line for the store of any program: what waits in the queues, what is in
// the poison queues, values, views, and what is wrong. It has the code of no program, and reads what their workers have
// published. A program's own binary has the same verbs.
package main

import (
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/redis"
)

func main() {
	host.Main(host.Program{
		Name: "millrace", About: "The operator's command line for the store of any program. It can be used while workers run.",
		Drivers: storage.Drivers{azure.Driver, redis.Driver},
	})
}
