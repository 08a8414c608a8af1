// Package throttle is the rate limiter before a program's handlers: it lets each tenant ask for so much, and refuses
// the rest with an answer that clients understand. Where it is told of a queue, it also refuses or defers what can't be
// served in time.
//
//	limiter, err := throttle.NewRateLimiter("reservations", throttle.Config{
//		Tenant: func(r *http.Request) string { return accountOf(r) }, // whom the request has proved to come from
//		Quotas: []throttle.Quota{{Name: "burst", Amount: 100, Per: time.Minute}},
//	})
//	mux.Handle("POST /reservations", limiter.Serve(book))
//
// A request over the quota is answered like this, by RFC 9110, RFC 9457 and draft-ietf-httpapi-ratelimit-headers-10:
//
//	HTTP/1.1 429 Too Many Requests
//	RateLimit-Policy: "burst";q=100;w=60;pk=:4fJmZ0aYcD1x:
//	RateLimit: "burst";r=0;t=1;pk=:4fJmZ0aYcD1x:
//	Retry-After: 2
//	Content-Type: application/problem+json
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",…,"violated-policies":["burst"]}
//
// A handler that knows its tenant only after it has read the request asks by [RateLimiter.Admit].
//
// A [Level] says how much a program leaves out, by hand, or also by how long its queues are: see [Level.Follow].
//
// # How it works
//
// One word tells how much a tenant has used of a quota: the time at which the quota is whole again. A request is let
// through if that time is near enough, and moves it on (the generic cell rate algorithm). A word whose time has
// passed says the same as none, so it is forgotten without a loss. The words are in 64 tables, under the hashes of
// tenants, and no name is kept. The hashes have 64 bits and a secret seed: among a million tenants two share a word
// with a chance of one in 30 million.
//
// The backlog is looked at when a request comes, at most once in 5 seconds, and in the background. In between the
// rate limiter adds what it has let through. The rate at which the queue is served is measured while messages wait, by
// how many fewer there are. While none is served, as of a queue that is paused, the rate stays what it was, until a
// message waits for longer than Within: then the rate limiter refuses requests. A rate limiter counts its deferred
// messages by itself, and as a part of the queue once they are due.
//
// # Laws
//
//   - In any time d a tenant gets Burst + Amount × d/Per requests at most, free repeats apart. Of bytes it gets one
//     body more, and of bodies that don't announce their length those under way. Jumps of the clock change nothing.
//   - A body that [RateLimiter.Serve] has let through costs the bytes that the handler has read, not those that it
//     announced.
//   - With Quota.Defer that law is about the times at which the work of requests is due. No work is deferred for longer
//     than Defer, and a repeat's work is never due before that of the request which it repeats.
//   - With Backlog.Defer, work is due when the queue before it is as long as Within. So it is done within that time
//     then, if the queue is served as fast as before. Only requests that were accepted put off those after them.
//   - A request over a quota whose Over is Degrade is let through, takes nothing of it, and learns that it is degraded.
//     So is a free repeat while its tenant is over the quota.
//   - A request takes of all its quotas or of none. A refused request takes nothing.
//   - A client that sends again what was accepted is not punished: the first ten repeats of an accepted ID are let
//     through before any quota is asked. The rate limiter knows the IDs that it has seen lately, and Config.Known all
//     others. IDs of one tenant are nothing to another.
//   - A request that has proved no tenant counts for its address, and costs no tenant anything. A tenant gets back what
//     a request took that the handler answers with 401 or 403, and that answer tells nothing of the tenant.
//   - Quota that is given back never lets a tenant have more than if the request had not been made.
//   - Retry-After is never before the moment at which the quotas let the request through.
//   - However many names come, the rate limiter keeps MaxKeys words, and a tenant that has one is not affected by the
//     others. While most are in use, names without one share 64 words.
//   - Whatever a handler does, a concurrent request ends when it returns.
//   - With Backlog.Hard, the messages that this rate limiter lets through, those that it defers included, and those of
//     the last look are never more together, free repeats apart.
//   - A queue that can't be read refuses nobody for longer than six times Backlog.Every.
//   - A level that follows queues rises with the first look at which one exceeds a bound. It falls below that bound's
//     level when all looks of a minute were good and saw it kept. It is never below the level by hand.
//
// A quota is of one process, in its memory. With three processes behind a balancer a tenant gets up to three times as
// much, and after each restart the whole quota anew, also that of a month.
//
// # Cost
//
//   - A request costs the store nothing, one with an ID that is about to be refused perhaps a call of Config.Known, and
//     a rate limiter with a Backlog 12 looks a minute at most. Where requests are billed a look is a request, and in a
//     queue with lanes a request for each lane that is in use, and once a minute for each that the queue could have.
//   - Some 130 ns to ask for one of 100,000 tenants, and some microseconds for the fields of an answer.
//   - Some 700 ns for each of 10 million names that nobody knows, and 32 MiB for all of them.
//   - 21 to 64 bytes for each quota of a tenant that has used it lately. A rate limiter without requests has no
//     goroutine and no timer.
//
// # Files
//
// Each file calls only files below it.
//
//	raise.go, level.go         a level that follows queues
//	serve.go                   a handler: its answers, and what its bodies cost
//	limiter.go                 the rate limiter: it asks the memory, the backlog and Config.Known in turn
//	config.go, counters.go     how it is set up; its metrics
//	request.go                 what is read of a request
//	refusal.go, pass.go        a request that was refused; one that was let through, until it ends
//	fields.go                  what clients see of quotas
//	memory.go                  what a pass needs of its rate limiter
//	claim.go                   what a request takes of its tenant's words, and gives back
//	backlog.go, later.go       how long the queue is, and how fast; what was deferred
//	plans.go, quota.go         which quotas a tenant has; the arithmetic of one
//	table.go                   where the words and the accepted IDs are
package throttle
