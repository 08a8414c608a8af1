// Package acts is the table of acts: all that an operator can do with the store of a program. The command line, the
// pages and the API are made from the table.
//
// An exported type of this package is an object that an act tells programs: a JSON line of the command line, a result
// of the API. The names of the object's members stay. An unknown value is null.
//
// # Laws
//
//   - A retry sends the message with its ID, kind and body to the queue that it came from, and then deletes the entry.
//     The message's counts of attempts start at zero. If the retry ends between the two steps the entry stays, and the
//     next retry sends the message again: replay records and notes of ReactOnce know its ID. If the message fails again
//     meanwhile, its new entry stays.
//   - A message's time is in its ID, or beside it. If that is more than 30 days ago, perhaps nothing remembers any more
//     whether the message was applied. Then the message returns to the poison queue as too old to judge, so its effect
//     can't happen twice. A retry says beforehand how many messages have such a time, and one that goes on in the
//     background says so in its dry run. An edit refuses a message of which nobody can tell. An operator who knows that
//     one was not applied sends it with another ID.
//   - A retry or discard without --id is a bulk act, of the entries that stood in the poison queues when the act was
//     asked for. The act goes on when its process is killed. Package ops/internal/bulk has the laws.
//   - A discard deletes the entry that was read. An entry that came in since then stays, and that is an error.
//   - An edited message is another message. Its ID follows from the old ID and the new content, and the old message is
//     its cause. So the same edit made twice is one message, also if the first one ended between the send and the
//     deletion of the entry. An edit is refused if the old message was applied or compensated for, and if nobody can
//     tell; --again sends it all the same.
//   - A message that send or edit sends fits the schema of its kind. The program that consumes its queue has published
//     that schema. A program's own binary also decodes the message and runs its Check.
//   - An act on a process is a message to it. It stands in the process, with who it was and why. It is kept until a
//     worker of the plan takes it, and the process may refuse it. So an act that was asked for twice may be done twice:
//     a rerun.
//   - A message that waits is cancelled only if no handler has had it. A purge deletes no more messages than waited
//     when it began, and none that a worker holds.
//   - An act that only reads changes nothing, but for one thing: lists of locks and leaders delete what candidates that
//     died an hour ago have left behind.
//   - A failure that concerns one message fails that message alone.
//   - The content of a message, and why it or a schedule's run failed, is told by show alone, because it may be
//     personal. So may be what processes list tells: why one failed.
//
// # Files
//
//	acts.go      the table; parts.go has fields and cells that several nouns have
//	doctor.go    tells what package doctor finds
//	find.go      finds what has an ID, a key or a name
//	queues.go    lists queues; queue.go shows one, and rates.go what workers have done; pauses.go pauses them;
//	             messages.go shows, cancels and purges what waits
//	poison.go    lists and shows the messages of the poison queues; settle.go retries and discards them, and edit.go
//	             sends one with another body. bulk.go does so with all that match
//	send.go      sends a command, and try.go shows what one would do
//	processes.go lists and shows instances of plans. processes_act.go acts on one, processes_many.go on a selection,
//	             and processes_verbs.go has the acts
//	settings.go  shows settings; settingchanges.go changes them, settingversions.go lists and compares their versions,
//	             and settingstatus.go tells of the programs that have them and of roll-outs
//	message.go   shows a message with what came of it
//	values.go    lists and shows documents; about.go what stands beside one; views.go rebuilds views
//	gates.go     and so on: a file for each noun
//
// A file has the acts of its noun, with the fields and the objects of each act. Beside the acts are packages for
// what they stand on: package look sees queues and what holds them, draft makes messages of what people write, applied
// knows whether a message has had its effect, track finds where a message is, poisoned and instances find what is
// meant, bulk settles many messages, unsend takes messages back, and tuning knows the words of settings.
package acts
