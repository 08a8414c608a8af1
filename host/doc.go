// Package host makes a program of routes, handlers and a web. It is the frame that every program needs: the command
// line, the store with its doorbell, logs, signals, health, metrics, HTTP, and the order of stopping.
//
//	func main() {
//		host.Main(host.Program{Name: "shop", Routes: shop.Routes, Register: shop.Register, Web: shop.Site})
//	}
//
// [Program] has a field for each thing that a program can add: flags of its own, what it opens and closes, loops of its
// own, and the settings of its worker. [Settings] opens settings that change while the program runs: its own, the level
// of the log, and numbers of queues and guards. docs/first-program.md begins with an empty folder.
//
// # Verbs
//
//	shop               serves HTTP and runs a worker, in one process
//	shop web           serves HTTP only
//	shop worker        runs a worker only
//	shop version       prints the version
//	shop help [VERB]   explains a verb and its flags, as VERB -help does
//
// A program without Web or without Register lacks the verb, and shop alone does what is left.
//
// The operator's verbs work on the program's store: queues, poison, values, views, processes, schedules, settings, ids,
// gates, locks, leaders, signals, send, top, doctor, spool, completion. shop help VERB explains them. The command
// millrace has them for the store of any program.
//
// # Flags
//
// Each flag has an environment variable: MILLRACE_STORE for -store. The flag wins over the variable, and the variable
// over the default. A program's own flag -seats is SHOP_SEATS. White space around a value doesn't count: a line break
// often ends what comes from a file. A path that begins with a ~ or a variable's name, which only a shell replaces, is
// refused.
//
//	-store, -doorbell, -doorbell-address   the store, and how processes wake one another
//	-addr                                  the address of the web
//	-origins                               the origins whose pages may send requests to the web, beside its own
//	-spool                                 the file that keeps the web's messages while the store is away
//	-worker                                whether a worker runs beside the web
//	-admin                                 the address for operators: health, metrics, processes and /scale; beside a
//	                                       web it is off
//	-concurrency, -active                  handlers at a time, and workers at a time
//	-bake                                  stages in which a change of settings comes to the programs, each for that time
//	-prices                                prices for the summary at the end
//	-log                                   the least level that is logged
//
// # Traces
//
// A program sends OpenTelemetry spans over HTTP where the standard environment variables ask for it:
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT name a collector, or OTEL_TRACES_EXPORTER=otlp
// stands for the one at http://localhost:4318. The other OTEL_ variables work as well, such as OTEL_SERVICE_NAME,
// OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER. OTEL_SDK_DISABLED=true or OTEL_TRACES_EXPORTER=none turn it off.
// Each request has a span, and so has what it brings about; see package channel. Streams of server-sent events have
// none.
//
// # Scaling
//
// GET /scale?queue=NAME on the port for operators answers how many workers of a queue have something to do, for KEDA's
// scaler of type metrics-api with the valueLocation "value":
//
//	{"queue":"mails","value":3,"waiting":512,"why":"512 messages wait, and a worker does 6.67 a second"}
//
// That is
//
//   - enough workers to do in 30 seconds what waits or is being handled, by what the fastest worker did in the last
//     two minutes. Until that is known, and after a quiet time, a worker is thought to do 200 messages, or fewer if
//     handlers take long. Azure Storage doesn't tell what is being handled; there the workers' last reports do, which
//     are a minute old.
//   - at most a message for each handler, and at most -active; at least 1 while something waits or is being handled.
//     A Limiter of the queue that bounds its workers, such as limiters.Workers of package worker/limiters, isn't known
//     here: the answer may be higher, and the workers beyond that stand by. So give the autoscaler the same number as
//     its maximum, or use -active in place of the Limiter.
//   - 0 while the queue is paused by hand, or waits by its level, once nothing of it is being handled.
//   - 1 while the service of its guard ([Program].Guards) is away for all processes, or for the one that
//     is asked: a worker finds out when it is back.
//
// A queue that the program doesn't consume is a 404 with the queues that there are. A store that can't be read is a
// 503. Workers that are scaled from none are asked about at a web with -admin. An answer holds for 5 seconds. It costs
// a look at the queue, and two reads and the guards' documents for all queues together.
//
// # Laws
//
//   - A program opens in this order: its port, the store, Start, Register, Web. Nothing is opened before all flags
//     are right, and a port that is taken leaves no files behind. A spool that can't be used is found after the store
//     is opened, which may have made its file.
//   - A page of another origin can't make a browser change anything by a request to the web. The origin is another one
//     by the header Sec-Fetch-Site, or by Origin and Host where a browser doesn't send the first. Requests with none of
//     them come from no browser, and are let through.
//   - A program stops in this order, each after the one before has ended: the web, the program's own loops, the spool,
//     the worker, its last report, its own server. Then come the closings of [App.OnClose], the latest first, the
//     store, and the summary. All closings are called also when the program fails to start.
//   - The first SIGINT or SIGTERM begins the stop. Signals within a second of the first count as the same one, because
//     supervisors and shells often send two. A later signal prints the summary and ends the process at once. The
//     promise of the queues makes that harmless.
//   - A worker consumes no queue that an operator has paused, whatever the queue's own limiter; see
//     limiters.Pauses.
//   - A queue of handlers.Optional waits while the level in the settings is at its own or above; see
//     limiters.Level.
//   - A change of settings that the program can't use is refused before anything of it applies. If it was forced, the
//     host's own part of the settings stays as it was. A program that doesn't call Settings makes no request for them.
//   - A number of a guard that the settings name holds in the place of the program's own. When it is taken out, the
//     program's own holds again.
//   - One process of a program with [Program].Alert looks for what is wrong with the store, and tells it; see package
//     ops/alert. That never stops a program. The hook's loop stops with the program's own loops.
//   - A part that fails, or ends before its time, stops the program. A part that returns the error of its ended
//     context has not failed.
//   - Exit codes: 0 after an orderly stop, 1 after a failure, 2 when the command line or the environment can't be
//     right, 128 plus the signal's number after a second signal.
//   - The standard output gets the address at the end of the first line, then a line for people, and at the end the
//     summary: the requests to the store for each command. Logs and errors go to the standard error: for people
//     where it is a terminal, and as JSON lines elsewhere. The host shows neither the store's URL nor
//     the text of a program's own flag, because both may be secret.
//   - Traces never delay or fail a program. Spans that can't be sent are lost, and that is logged seldom. After the
//     worker has stopped, the program waits at most 3 seconds for its last spans to be sent.
//   - GET /healthz, /readyz and /metrics are the host's, on the web's port too. /readyz answers 503 as soon as the stop
//     begins. While the store is away and the spool takes messages, it answers 200 and says so. So it does while the
//     service of a guard is away. The pages of processes,
//     GET /processes, and GET /scale are on the port for operators (-admin) alone, because they show what is not for
//     everybody.
package host
