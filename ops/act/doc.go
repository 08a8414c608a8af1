// Package act says what an act is: one thing that an operator can do with a store. The command line, the pages and the
// API are made from a table of acts (package ops/acts), so none of them can do what the others can't.
//
//	var pause = act.New(act.Act{
//		Noun: "queues", Verb: "pause", About: "keep queues from being consumed", Role: act.Operator, Why: act.Must,
//	}, func(in *pauseInput) []act.Field {
//		return []act.Field{
//			act.Texts(&in.Queues, "queue", "the queues").At("QUEUE").From(queueNames),
//			act.Duration(&in.For, "for", "pause them for this `TIME`", time.Second, channel.MaxDelay),
//		}
//	}, func(ctx context.Context, c *act.Call, in *pauseInput) error {
//		…
//		return c.Say(line, "Queue %s is paused.", name)
//	})
//
// An input is a struct of the act's own. Its fields read text, so a flag, a field of a form and a member of JSON are
// one thing. A field that doesn't like its text says what it wants.
//
// An act doesn't print. It tells its Call what it finds: rows of a table, a thing, a sentence. Each has an object for
// programs and words for people. A Sink makes text, JSON lines or a page of them. So an act ends well only if what it
// told could be written.
//
// # Laws
//
//   - A request is checked before the store is asked for anything: its role, its fields, its reason, and that somebody
//     is sure of an act that destroys.
//   - A dry run changes nothing.
//   - An act that only reads has role Viewer, and an act that changes something has another one.
//
// # Files
//
//	act.go    Act and New
//	request.go an act with the text that somebody has given
//	field.go  what reads the text of a field
//	list.go   lists of things that have names: their fields and their tables
//	desk.go   the open store at which acts are done, and the program of the binary
//	call.go   what an act sees of its run, and Sink
//	errors.go how an act ends; words.go has words for times, numbers and shells
package act
