// Package guard stands around the calls of an outside service: a mail server, a bank, somebody's API.
//
//	smtp := guard.New("smtp", guard.Config{Fault: guard.SMTP})
//
//	handlers.ReactOnce(h, "mails", guard.Around(smtp, mailer.Confirm)) // each run is one call
//	worker.QueueConfig{Limiter: smtp.Limiter}                          // of queue mails: it pauses while smtp is away
//
// A handler that does more than the call, or isn't a reaction, makes the call by Do. Its error already is the verdict:
//
//	err := crm.Do(ctx, func(ctx context.Context) error { // it may run twice, so it makes the request itself
//		request, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(order))
//		if err != nil {
//			return err
//		}
//		answer, err := client.Do(request) // client has crm.Transport(nil)
//		if err != nil {
//			return err
//		}
//		defer answer.Body.Close()
//		return guard.CheckStatus(answer)
//	})
//
// # Kinds of fault
//
// Config.Fault says what kind an error is: [HTTP], [SMTP], [SQL], [Usual] or a function of your own. The rest follows.
//
//	kind       for example                          the message                           the breaker counts
//	Done       2xx                                  is deleted                            a success
//	Permanent  400, 404, 422; SMTP 550              goes to the poison queue              a success: it answered
//	Throttled  429, 503 with Retry-After, SMTP 421  waits, without an attempt             nothing; all wait until then
//	Transient  nothing was sent; 503; a deadlock    comes again, and may spend an attempt a failure
//	Unknown    sent, and no answer; 500, 502, 504   see below                             a failure
//	Mine       the handler's own context has ended  as its error says; see below          nothing
//
// A call whose outcome is unknown is repeated only if the service is Repeatable. If Verify can ask the service, each
// call asks first. Otherwise the message goes to the poison queue with [ReasonUnknown], and so does each copy of it
// that handlers.ReactOnce meets: an operator decides. A retry from the poison queue calls again; Verify is asked first.
// The same holds for a call that a worker cuts off when it stops, but it says nothing of the service.
//
// A call that panics has failed: it is Transient and NotInPlace, or Unknown if its time is over or Transport has sent a
// request that may be done. Code that passes over an error often panics because the answer is missing.
//
// A call is repeated within its handler once, after at most 250 milliseconds, and only within a budget of a tenth of
// all calls, and while other messages don't fail as well. Everything else is another delivery.
//
// # The breaker
//
// It opens when half of at least 20 calls have failed within 10 seconds, or 20 in a row, and at least 5 messages were
// among them. Then no call is made, and the queues with its Limiter are paused. After 1 second, later up to 30, one
// message is received, and its call is the probe. When that is done, 2 calls are let through at a time, then 4, 8, 16
// and 32, then all.
//
// # All processes
//
// Breakers of one name on one store agree by a document, "guards/" and the name. It is written only when something
// changes. When a breaker opens, its process reports that. The others are rung where the store rings, and those whose
// calls are done say so. If the reports are more, the breaker is open for all: also for a process that starts.
//
// Each process counts its own calls alone. So in an outage a process makes 20 calls, and those that are under way by
// then, or fewer if the breaker is open for all before: hardly more than 25 if few calls are under way at a time.
// Afterwards there is one probe at a time in all processes, some 35 in ten minutes.
//
// Then one process at a time claims the right to probe, by a guarded write, and beats while its call is under way. If
// the call is done, all processes begin to call slowly. If it fails, all wait for longer. Without rings, processes
// look every 5 seconds while their breaker is open, and the others learn of reports only when half as many of their
// calls have failed as open a breaker.
//
// If the service asks one process to wait, that needs no other report: the breaker is open for all, for as long, an
// hour at most. The document has the length of the pause, which each process counts from when it learns of it. A
// process that starts doesn't know how old the pause is, so it claims a probe, and the service tells.
//
// [Guard.Status] says since when the breaker of a process is open, and why, and [Outages] says it of a store. In
// programs of package host /readyz and the verb doctor show them. [Close] closes a breaker by hand, as does guards
// close.
//
// # Limits
//
// Config.Rate bounds the calls a second, and Config.Slots the calls at a time, of all processes together:
//
//	smtp := guard.New("smtp", guard.Config{Rate: guard.PerSecond(50), Slots: 20})
//	limits := smtp.Limits()
//	limits.Rate = guard.PerSecond(80)
//	err := smtp.Set(limits) // while it works; what limits has counts, and nothing of before
//
// Processes divide both by a document of the store; see package coord/limit. The Limiter takes only messages that have
// a permit, or get one soon. So the queue is where messages wait. Several queues of a process that have the
// Limiter divide its part, and the calls that a ramp lets through.
//
// Config.Adaptive bounds the calls of this process at a time by what the service can usefully do, as the process finds
// out from the times of its calls; see [Adaptive]. So messages wait in the queue, and not in that of the service:
//
//	crm := guard.New("crm", guard.Config{Adaptive: guard.Adaptive{Most: 64}})
//
// Many processes find their parts of a service that way, without a request. Where they are more than the calls that the
// service does at a time, each still makes Least, so Slots are better.
//
// # Laws
//
//  1. While the breaker is open, nobody calls but one probe, of all processes that have agreed on it, and no message
//     below MaxAge spends an attempt. A failure is an attempt only if the service has done another message's call
//     since this message's last try, as far as this process knows. So an outage poisons nobody, but for messages
//     of unknown outcome, also those of probes, where there is neither Repeatable nor Verify. A message that fails by
//     itself does end in the poison queue once others are done.
//  2. Nothing is held while a message waits: no handler's place and no probe, for longer than 250
//     milliseconds, and for a probe
//     the time that the store needs to answer its claim. No permit and no slot is held for a claim.
//  3. One message alone can't open the breaker, nor can one step of a process in all its attempts, nor can fewer than 5
//     messages. It can't keep it open while others wait: the next probe is another one. Nor can a
//     caller's own deadline that leaves its calls less than a quarter of Timeout.
//  4. The trouble of one process stops no other. A breaker is open for all only if more processes report that theirs
//     has opened than say that their calls are done, or if the service asks to wait. A process whose own breaker is
//     open stays shut to itself. Without rings nobody may have said that its calls are done, so one process in trouble
//     may open it for all. Then the others probe before it, and what another's probe has shown counts against it for
//     a minute. Reports that are there when a process starts, and don't change for a minute, are removed: those that
//     live report again. A document names 200 processes at most.
//  5. A breaker that is closed costs one request, when its worker starts, and no goroutine and no timer. Neither does
//     one that ramps and has no calls. A service that comes and goes, and opens no breaker, costs a process without
//     rings a read now and then, and one with rings nothing.
//  6. A guard loses no message, and changes no promise of the worker. It only says "later", up to MaxAge. That a
//     message was handed back in an outage makes it wait no longer afterwards. Without a store, and while the store
//     fails, the breaker and the limits are the process's own. A document that can't be read may have been that of an
//     open breaker, so it counts as one. The next process that looks replaces it, and 7 seconds later a call is the
//     probe: by then a process that was probing has said so, or has died.
//  7. Each call's place ends: by its call, its context, a panic, or at the latest 10 seconds after Timeout. If a later
//     answer asks to wait, all wait. A probe that tells nothing is followed by another one after Probe.First. While a
//     breaker is shut, a timer runs that lets the next call through, and another that watches the first. The right to
//     probe for all passes on 7 seconds after the last beat of a process that has died. It also passes on from a live
//     one whose probe doesn't end, after twice Probe.Most and the time of a call. Handlers that hang, or do other
//     things for long, keep no queue from its probe. A call that outlives its context has no place of an adaptive
//     limit any more. It keeps its slot of all processes, because it may be under way.
//  8. In any time T, all processes begin at most Rate × T calls and a burst: those of 0.2 seconds, and one for each
//     process. At most Slots are under way, besides those of a process that has lost its store. The limits of a
//     process that dies come back within half a minute.
//  9. A time for which the service asks one process to wait is over before another process that has learned of it
//     calls. It is written once, however many calls are asked to wait, and again when one must wait for longer, or
//     a probe.
//  10. The queues of one process that have the Limiter are promised together no more messages than the guard lets run.
//     A
//     promise counts until it is taken back, and a message until it is released. So none is fetched to wait for the
//     calls of another queue. A queue whose place stays empty for 0.1 seconds counts as idle: it gets one place, in
//     turn with the other idle ones, of a quarter of all. While all are idle, each has one place.
//  11. A call whose outcome is unknown is never repeated by a guess. Verify is asked before each call, also that of a
//     copy, or of a message that comes back from the poison queue. Without it, and if the service isn't Repeatable,
//     only an operator's retry calls again. The key by which the service recognises a repeat is the same in all
//     attempts: the message's ID, or in an agent that of its step, item or undo, or the one of [Keyed]. All of that
//     holds for a call whose handler is given up, too. Of copies, and of messages that come back after an outage of the
//     store, handlers.ReactOnce alone knows. Others may still call after a process that is killed between its call and
//     the note of the outcome, or that alone can't reach the store for 35 seconds. In an agent of a process, an unknown
//     outcome makes the step stuck.
//  12. An adaptive limit stays between Least and Most. Under a backlog it leaves the service work all the time. It
//     follows a service that does more or less, or takes longer, within a minute or some more. Calls that fail don't
//     move it, nor do calls that it doesn't bind. No pause of a process, no clock and no long call stops its
//     measuring.
//
// Elapsed time within one process decides all of this, but for MaxAge, which is the age of a message by two machines'
// clocks, and for when adaptive limits are measured.
//
// # Cost
//
// A call through a closed breaker takes some 1 µs and 5 allocations, and 200 ns and none with NoTimeout
// (BenchmarkClosed). Rate and Slots together add 220 ns, Adaptive 640 ns and 3 allocations. A worker that drains the
// guard's only queue is as fast with limits that don't bind as without them: of 300,000 messages each took 0.6 % longer
// (BenchmarkDrain). While there are calls, Rate and Slots each cost some 20 to 45 requests a minute and process,
// whatever the rate, and Adaptive costs none. An open breaker costs some 16 reads a minute and process, 2 or 3 requests
// for each probe, and 1 every 2 seconds while a probe is under way. A message that is handed back is one rewrite, and
// under ReactOnce two more requests. So an outage costs that for each message in hand, and for each probe.
package guard
