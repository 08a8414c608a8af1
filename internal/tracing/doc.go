// Package tracing makes the framework's OpenTelemetry spans. It is the one place that knows their names, kinds and
// attributes. They follow the semantic conventions for messaging spans, version 1.43.0.
//
//	send orders               PRODUCER  one call of a Sender; its messages carry this span as their traceparent
//	├─ wait orders            INTERNAL  from when the message was sent, or due, until its handler starts
//	└─ process orders         CONSUMER  one delivery, until its outcome is recorded or the message waits to be deleted
//	   ├─ decide stock        INTERNAL  one call of the user's code, by the name of its handler
//	   │  ├─ wait mails                 a decision's emissions carry its span
//	   │  └─ process mails
//	   │     └─ react mails
//	   └─ commit stock        INTERNAL  the unit of work
//
// # Laws
//
//   - Without a provider there are no spans, and it costs nothing that can be measured: the traceparent of a message
//     passes on to the messages that it brings about.
//   - A span has no body, no key of a document and no text of an error: only names, IDs, counts, and types of errors.
//   - A message that comes again has another span "process" below the same span "send". A replay of a decision sends
//     what was recorded, with the traceparent of the first decision.
//   - Messages that are folded together have a span "process" each. Their one "commit" is below the first of them and
//     linked with the others.
//   - Spans are for people. Nothing is decided by them: a message's content is its kind and its data.
//
// Of W3C Trace Context only the traceparent travels: no tracestate, and no baggage. There are no spans "create",
// "receive" and "settle": a person would learn nothing from them that the others don't show.
package tracing
