// Package ops serves the pages and the API by which operators watch and steer what a store holds: queues, poison
// messages, processes, settings and all else that package acts has an act for.
//
//	pages, err := ops.New(ops.Config{Desk: desk, Login: login})
//	mux.Handle("/ops/", pages)
//	go pages.Run(ctx) // acts on many messages
//
// The pages are made from the table of acts, as the command line is. A noun is a list and a page for each thing. An act
// that changes something is a form, which shows the command line that does the same.
//
//	GET  PATH/                    what is wrong, worst first, and the queues
//	GET  PATH/find?q=WORD         what has an ID, a key or a name
//	GET  PATH/NOUN                the list of a noun; its fields are the query
//	GET  PATH/NOUN/THING          all of one thing, and the acts on it
//	GET  PATH/do/NOUN/VERB        the form of an act
//	POST PATH/do/NOUN/VERB        does the act
//
// A program asks for the same addresses with Accept: application/json, and gets {"results": […], "notes": […]}. A POST
// takes a form or a JSON object, whose members are the flags and arguments of the command line. The header
// Idempotency-Key is the act's ID: an act that is sent again under its ID is done once. An error is a problem document,
// with the results and notes of what was done before the error.
//
// # Laws
//
//   - A page shows the acts that its viewer may do, and the server refuses all others.
//   - An act has an ID from its form. A form that is sent twice has one effect, also when both come at once, or when
//     a process dies in between. A failure is shown as a failure again. Somebody who goes away stops nothing.
//   - A name that an act doesn't know is refused, and so is an empty member of JSON. Neither means "any".
//   - An act that destroys is shown first, with what it would do, and is done after a second click. It then does no
//     more than was shown: a purge deletes no more messages, and an act on all that match takes none that came later.
//   - Many viewers ask the store no more than one, and nobody looking asks nothing: what was read counts for two
//     seconds. A store that is read slowly is shown as it was up to half a minute ago, while it is read again. Poison
//     messages are counted by cause once a minute.
//   - Viewers keep nobody from the store: a few of their requests read the store at a time, a list has a bounded
//     length, an act waits for a bounded time, and a viewer who leaves waits no longer.
//   - An act on many messages whose process has died is taken over when somebody looks at the act.
//   - A page says how old its numbers are, and what could not be read. A part that can't be read takes nothing else
//     away.
//   - Text from outside is text on a page, whatever it has in it. Characters that people can't see are shown by their
//     numbers, and a form sends a name that has such characters as it is.
//   - The page of a noun has a list, or a choice of what the list needs. A list goes on where a page ends. A message's
//     page links what is there, and says what is gone.
//   - All links are relative. So a proxy may serve the pages under any path.
//   - Each page is for everybody: for a phone and for a desk, in light and in dark, without a mouse and without script.
//   - A browser keeps the style sheet, the script and the icon, whose names change with what they hold, and no page.
//
// # Files
//
//	ops.go    Config and New: the addresses
//	reads.go  the desk of all viewers, and what was read just now; bounds.go what one request may ask for
//	told.go   what an act tells, kept for a page or for JSON; cells.go its tables as HTML
//	plain.go  text without what people can't see
//	choice.go what people choose from where a list needs a name
//	table.go  the acts that pages can do, and which page shows what
//	prose.go  texts with command lines, as pages say them; titles.go how acts are called, and where they lead back
//	pages.go  the pages; forms.go the acts that change something; members.go the JSON that asks for one
//	instance.go the page of an instance of a plan, also with its content
//	look.go   how tables, names and the way around look, and the files that a browser keeps
//	overview.go the first page; findings.go what mends a finding; search.go what a word names
//	rates.go  what comes and goes a second, and the picture of the last 24 hours
package ops
