// Package guard has circuit breakers and rate limits for the calls of outside services: a mail server, a bank,
// somebody's API. While a service is away, the queues that need the service wait, and no message spends its attempts.
//
//	smtp := guard.New("smtp", guard.Config{Fault: guard.SMTP})
//
//	handlers.ReactOnce(h, "mails", guard.Around(smtp, mailer.Confirm)) // each run is one call
//	worker.QueueConfig{Limiter: smtp.Limiter}                          // of queue mails: it pauses while smtp is away
//
// A handler that does more than the call, or isn't a reaction, makes the call by [Guard.Do], whose error is the verdict
// on the message. [Kind] says what each kind of fault means for the message and for the breaker. docs/guard.md says how
// to use all of this, how many processes share a breaker, what that costs, and how it was measured.
//
// # Laws
//
//  1. While the breaker is open, nobody calls but one probe, of all processes that have agreed on the breaker, and no
//     message below MaxAge spends an attempt. A failure is an attempt only if the service has done another message's
//     call since this message's last try, as far as this process knows. So no message goes to the poison queue because
//     of an outage. The one exception: a message of unknown outcome, if the guard has neither Repeatable nor Verify. A
//     process makes the calls that open a breaker, 20 by default, and those that are under way by then. Afterwards
//     there is one probe at a time in all processes.
//  2. While a message waits, no handler's place is held for longer than 250 milliseconds, and no permit and no slot. A
//     probe waits also for the store's answer to its claim.
//  3. One message alone can't open the breaker, nor can one step of a process in all its attempts, nor can fewer than
//     Break.Distinct messages. A message can't keep the breaker open while others wait: the next probe is another one.
//     A caller may set a deadline that leaves a call less than a quarter of Timeout. The end of such a call doesn't
//     open the breaker.
//  4. A process counts its own calls alone, and the trouble of one process stops no other. A breaker is open for all
//     only if more processes report that theirs has opened than say that their calls are done, or if the service asks
//     to wait. A process whose own breaker is open stays shut to itself. Without rings nobody may have said that its
//     calls are done, so one process in trouble may open the breaker for all. Then the others probe before that
//     process. Reports of processes that have died are removed.
//  5. A breaker that is closed costs one request, when its worker starts, and no goroutine and no timer. A ramp without
//     calls asks nothing. Without rings, a process also looks when half as many calls have failed as open the breaker.
//  6. A guard loses no message, and changes no promise of the worker. Without a store, and while the store fails, the
//     breaker and the limits are the process's own. A document that can't be read counts as that of an open breaker,
//     until the next process that looks replaces it.
//  7. Each call's place ends: by its call, its context, a panic, or at the latest 10 seconds after Timeout. If a later
//     answer asks to wait, all wait. A probe that tells nothing is followed by another one after Probe.First. While a
//     breaker is shut, a timer lets the next call through, and another timer watches the first. The right to probe for
//     all passes on 7 seconds after the last beat of a process that has died. From a live process whose probe doesn't
//     end, it passes on after twice Probe.Most and the time of a call. Handlers that hang keep no queue
//     from its probe.
//  8. In any time T, all processes begin at most Rate × T calls and a burst: those of 0.2 seconds, and one for each
//     process. At most Slots are under way, besides those of a process that has lost its store. The limits of a
//     process that dies come back within half a minute.
//  9. A time for which the service asks one process to wait, an hour at most, is over before another process that has
//     learned of it calls. It is written once, however many calls are asked to wait.
//  10. The queues of one process that have the Limiter are promised together no more messages than the guard lets run.
//     A promise counts until it is taken back, and a message until it is released. Queues without messages hold a
//     quarter of all places at most, in turn.
//  11. A call whose outcome is unknown is never repeated by a guess, also if its handler is given up or its worker
//     stops. Verify is asked before each call. Without Verify, and if the service isn't Repeatable, only an operator's
//     retry calls again. The key by which the service recognises a repeat is the same in all attempts. Of copies, and
//     of messages that come back after an outage of the store, handlers.ReactOnce alone knows. A call can still be made
//     twice after a process that is killed between its call and the note of the outcome, or that alone can't reach the
//     store for 35 seconds.
//  12. An adaptive limit stays between Least and Most. Under a backlog it leaves the service work all the time. It
//     follows a service that does more or less, or takes longer, within a minute or some more. Failed calls don't
//     move the limit. Calls that are made while the limit isn't reached don't move the limit either.
//
// Elapsed time within one process decides all of this, but for MaxAge, which is the age of a message by two machines'
// clocks, and for when adaptive limits are measured.
//
// # Files
//
//	guard.go      Guard, Do, Around and Keyed: one call, from its permit to its verdict, and whether it spends an attempt
//	config.go     Config, Break and Probe, and what they may be
//	fault.go      Kind and Fault: what an error means; Error
//	classify.go   Usual, HTTP, SMTP and SQL, which tell kinds of faults
//	outcome.go    how a call ended, from its error, its panic or its end; transport.go tells what was sent
//	limits.go     Rate and Slots; adaptive.go finds a limit by the times of calls, and seat.go is a call's part of them
//	limiter.go    what a worker may take; division.go divides that among the queues of a process
//	breaker.go    the breaker's mutex and timers; internal/breaker decides when the breaker of this process opens
//	news.go       what goes to internal/fleet, which decides when the breaker is open for all processes
//	status.go     what people see, with log.go and metrics.go
package guard
