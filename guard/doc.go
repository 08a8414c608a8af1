// Package guard stands around the calls of an outside service: a mail server, a bank, somebody's API.
//
//	smtp := guard.New("smtp", guard.Config{Fault: guard.SMTP})
//
//	handlers.ReactOnce(h, "mails", guard.Around(smtp, mailer.Confirm)) // each run is one call
//	worker.QueueConfig{Turn: smtp.Turn}                                // of queue mails: it pauses while smtp is down
//
// A handler that does more than the call, or is not a reaction, makes the call by Do. Its error already is the verdict:
//
//	err := crm.Do(ctx, func(ctx context.Context) error {
//		answer, err := client.Do(request.WithContext(ctx)) // client has crm.Transport(nil)
//		if err != nil {
//			return err
//		}
//		defer answer.Body.Close()
//		return guard.CheckStatus(answer)
//	})
//
// # Kinds of fault
//
// Config.Fault says what an error means. The verdict follows.
//
//	kind       for example                             the message                            the breaker
//	Done       2xx                                     is deleted                             success
//	Permanent  400, 404, 422; SMTP 550                 goes to the poison queue               success: it answered
//	Throttled  429, 503 with Retry-After; SMTP 421     waits, without an attempt              opens until then
//	Transient  refused, not sent, 503, deadlock        again, at once or later: an attempt    failure
//	Unknown    sent and no answer, 502, 504            see below                              failure
//	Mine       the handler's own context has ended     as its error says                      nothing
//
// A call whose outcome is unknown is repeated only if the service is Repeatable. If Verify can ask the service, the
// next delivery asks first. Otherwise the message goes to the poison queue with [ReasonUnknown], and an operator decides.
//
// A repeat within the handler is made once, after at most 250 milliseconds, within a budget of a tenth of all calls.
// Everything else is another delivery.
//
// # The breaker
//
// It opens when half of at least 20 calls have failed within 10 seconds, or 20 in a row, for at least 5 messages. Then no
// call is made, and the queues with its Turn are paused. After 1 second, later up to 30, one message is received and its call is the
// probe. When that is done, 2 calls are let through at a time, then 4, 8, 16 and 32, then all.
//
// # Laws
//
//  1. While the breaker is open, nobody calls but one probe. After it has opened, no message spends an attempt for the
//     service's sake: a failure is an attempt only if the service has done another message's call since this message's
//     last try. So an outage poisons nobody, and a message that fails by itself does end in the poison queue.
//  2. Nothing is held while a message waits: no slot, place or goroutine for longer than InPlace.
//  3. One message alone can't open the breaker, and can't keep it open while others wait: the next probe is another one.
//  4. A breaker is one process's own. Its trouble stops no other process.
//  5. A closed breaker costs no request, no goroutine and no timer.
//  6. A guard loses no message and promises nothing else than the worker does: it only says later. MaxAge bounds that.
//  7. Each permit and each probe ends: by its call, its context, a panic, or at the latest 10 seconds after Timeout.
//     While a breaker is shut, a timer runs that lets the next call through.
//
// Elapsed time of one process decides all of this, but for MaxAge: that is the message's age by two machines' clocks.
//
// # Cost
//
// A call through a closed breaker takes some 200 ns and no allocation, and with a Timeout some 700 ns more. There are
// no requests to the store, but for what a verdict takes: a message that is handed back is one rewrite. What is in hand
// when the breaker opens is handed back once.
package guard
