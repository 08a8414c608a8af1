// Package act says what an act is: one thing that an operator can do with a store. The command line, the
// pages and the API are made from one table of acts (package ops/acts).
//
//	var pause = act.New(act.Act{
//		Noun: "queues", Verb: "pause", About: "keep queues from being consumed", Role: act.Operator, Why: act.Must,
//	}, func(in *pauseInput) []act.Field {
//		return []act.Field{
//			act.Texts(&in.queues, "queues", "the queues").At("QUEUE").From(queueNames),
//			act.Duration(&in.length, "for", "pause them for this `TIME`", time.Second, act.MaxAhead),
//		}
//	}, func(ctx context.Context, c *act.Call, in *pauseInput) error {
//		…
//		return c.Say(line, "Queue %s is paused.", name)
//	})
//
// An input is a struct of the act's own. The fields of the input read text, as people type text behind a flag. Where
// the text is wrong, the error of the field says what the field wants.
//
// An act doesn't print. It tells its Call what it finds: rows of a table, a thing, a sentence. Each has an object for
// programs and words for people. A Sink makes text or JSON lines of them. So an act ends well only if what it
// told could be written.
//
// # Laws
//
//   - A request is checked before the store is asked for anything: its fields, its reason, and that somebody is sure of
//     an act that destroys. A field that has to be given and isn't is refused by its name.
//   - An error names a field by the word of the surface where the act was asked for.
//   - An act that changes something takes a reason. It must have one if it needs an admin, or if it keeps messages from
//     their handlers: others find what is gone or stands still, and ask why. A dry run needs none.
//   - A dry run changes nothing.
//   - An act that only reads has role Viewer, and an act that changes something has another role.
//   - An act that changes something has a row in the audit log before the effect. Without the row nothing is done. A
//     second row says how the act ended. The rows have no content and no text of a hidden field, and of an act that
//     reveals content they don't have what it found. They have no text of a program's code (Call.OfCode,
//     Call.OfGiven). An act that goes on after its run (Call.GoesOn) gets the second row from the process that ends the
//     act.
//   - An act that is begun again under its ID is done once, if it has ended. Programs are told what they were told
//     then, as far as a row of the log has room; an act that went on tells how it ended. An act that had failed fails
//     again, also one that went on and whose first answer could not know that. While this process does the act, a
//     second call is refused. Where nobody knows the end, because the store was away or a process died, the act is done
//     again: it sends the same messages. An act whose repeat nothing tells apart (Act.Once) is refused then.
//   - An ID belongs to all that was asked for, also to the content that the log doesn't show.
//
// # Files
//
//	act.go     Act and New
//	surface.go the words by which a command line, the pages and the API know fields
//	request.go an act with the text that somebody has given; audited.go notes the act in the audit log
//	field.go   what reads the text of a field
//	hint.go    an act that helps, filled in as far as somebody knows
//	list.go    lists of things that have names: their fields and their tables
//	desk.go    the open store at which acts are done, and the program of the binary
//	call.go    what an act sees of its run, and Sink
//	errors.go  how an act ends; words.go has words for times, numbers and shells
package act
