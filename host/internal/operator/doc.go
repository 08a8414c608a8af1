// Package operator is the command line of the people who run a program. It shows what waits in the queues, pauses and
// resumes them, shows and settles what is in the poison queues, shows values and views, shows and settles schedules,
// counters, gates, guards, locks, leaders and turns, shows processes and acts on them, changes settings, sends
// commands and finds what is wrong. It may be used while workers run.
//
//	millrace queues list
//	millrace queues pause   QUEUE… -why TEXT [-for D | -until TIME] [-by WHO] [-repair]
//	millrace queues resume  QUEUE… [-repair]
//	millrace poison list    [-queue Q] [-id ID]… [-kind K] [-reason R]
//	millrace poison show    ID… [-queue Q]
//	millrace poison edit    ID -data FILE | - [-queue Q] [-again]
//	millrace poison retry   -all | -id ID… | -kind K | -reason R  [-queue Q] [-dry-run]
//	millrace poison discard -all | -id ID… | -kind K | -reason R  [-queue Q]  -yes | -dry-run
//	millrace values list    [KIND] [-prefix P] [-after KEY] [-limit N]
//	millrace values show    KIND KEY
//	millrace views list     [VIEW] [-prefix P] [-after KEY] [-limit N]
//	millrace views show     VIEW KEY
//	millrace views rebuild  VIEW [-clear]
//	millrace schedules list [-prefix P] [-after NAME] [-limit N]
//	millrace schedules show NAME
//	millrace schedules pause | resume | run NAME [-by WHO] [-why TEXT]
//	millrace schedules backfill NAME FROM TO [-by WHO] [-why TEXT]
//	millrace ids list       [-prefix P] [-after NAME] [-limit N]
//	millrace ids raise      NAME NUMBER  -yes | -dry-run
//	millrace gates list     [-prefix P] [-after NAME] [-limit N]
//	millrace gates open     NAME [-at TIME] [-by WHO] [-why TEXT]
//	millrace gates close    NAME [-by WHO] [-why TEXT]
//	millrace gates repair   NAME [-by WHO] [-why TEXT]
//	millrace locks list     [-all] [-prefix P] [-after NAME] [-limit N]
//	millrace locks break    NAME -why TEXT [-by WHO]
//	millrace locks raise    NAME FENCE [-ttl D] [-by WHO] [-why TEXT]
//	millrace leaders list   [-prefix P] [-after NAME] [-limit N]
//	millrace guards list    [-prefix P] [-after NAME] [-limit N]
//	millrace guards close   NAME
//	millrace turns list     QUEUE [-all] [-prefix P] [-after KEY] [-limit N]
//	millrace turns release  QUEUE KEY -why TEXT [-by WHO]
//	millrace signals send   NAME [-data TEXT] [-one]
//	millrace processes list [-plan P] [-status S | -stuck] [-waits NAME] [-since D] [-tag K=V]… [-prefix P] [-limit N]
//	millrace processes show     ID [-plan P] [-json | -trace]
//	millrace processes signal   ID KIND FILE [-plan P] [-wait D]
//	millrace processes cancel   ID [-plan P] [-by WHO] [-why TEXT] [-wait D]
//	millrace processes retry    ID [STEP] …  |  -stuck | -since D | -waits NAME | -tag K=V… | -prefix P  [-dry-run] …
//	millrace processes skip     ID [STEP] [-result JSON] …
//	millrace processes fail     ID [STEP] …
//	millrace processes rerun    ID STEP …  |  [STEP] -status S | -since D | -waits NAME | -tag K=V… | -prefix P …
//	millrace processes nudge    ID …
//	millrace processes versions [-plan P]
//	millrace settings show      [-of NAME]
//	millrace settings history   [-of NAME] [-limit N]
//	millrace settings diff      FROM [TO] [-of NAME]
//	millrace settings status    [-of NAME]
//	millrace settings set       PATH=VALUE… [-default PATH]… [-of NAME] [-by WHO] [-why TEXT] [-now | -force] [-wait D]
//	millrace settings back      [-to VERSION] [-of NAME] [-by WHO] [-why TEXT]
//	millrace send           KIND FILE [-id ID] [-delay D | -at TIME]
//	millrace top            [-every D] [-n N]
//	millrace doctor         [-lag D]
//	millrace spool          FILE
//	millrace spool list     FILE [-all]
//	millrace spool discard  FILE ENTRY… -why TEXT [-by WHO] -yes
//	millrace spool release  FILE
//	millrace completion     bash | zsh | fish
//
// Flags stand after the verb. Every verb but completion takes -json. All but completion and those of spools take -store
// URL, which is also the environment variable MILLRACE_STORE. Without either it is data/NAME.db, by the name of the
// program. A store in a file that isn't there is an error, also for send: no worker would ever look there.
//
// # Programs
//
// The command millrace has the code of no program. It works on the store of any: it reads what the programs' workers
// have published there (package catalog). A program's own binary has the same verbs, and its code does more:
//
//   - send and poison edit also decode the message, run its Check, and give it the ID and subject that it chooses.
//   - poison edit knows which document a message is for.
//   - views rebuild works for the views that the program can rebuild.
//
// A queue is consumed by the programs that have a handler for it and have published within two days: a worker
// publishes once a day, so nobody knows it sooner when the last one stops.
//
// # Selections
//
// retry and discard need a selection of messages: -all, or one or more of -id, -kind and -reason. A message must fit
// all that are given. -queue alone is not enough; -queue narrows any selection. An ID is that of a message, or the key
// of an entry: an entry that can't be decoded has nothing but its key. Kinds and reasons are compared whole.
//
// # Output
//
// Without -json: tables for people, in which no part of a message can move the cursor. With -json: JSON lines, one
// object for each queue, message, document, finding and so on. The names of their members stay. An unknown value is
// "–", and null in JSON.
//
// The lines of retry and discard have a result:
//
//   - sent back, discarded, failed
//   - selected: a dry run has left the entry alone
//   - gone: somebody else was quicker
//   - changed: a new entry came in since the old one was read; the new one stays
//
// They, and those of edit, have the member halted where the message has halted a key of its queue (package
// coord/keylock): turns release lets the others of that key go on. People get a note of it.
//
// The lines of the verbs of schedules and of coordination have a result, too:
//
//   - schedules pause, resume, run and backfill: paused, resumed, run, backfill, unchanged, asked (a message waits for
//     the next worker)
//   - ids raise: raised, made, repaired, unchanged, selected (a dry run)
//   - gates open, close and repair: opened, announced, closed, unchanged, repaired
//   - guards close: closed, unchanged; the other members tell how the guard was before
//   - queues pause and resume: paused, resumed, unchanged, repaired (the pauses could not be read, and are replaced)
//   - turns release: released, unchanged (the key waits for nothing)
//   - spool release: released; spool discard: discarded
//   - locks break: broken, broken before (the first note stays), free (nobody held it); locks raise: raised
//
// The result of an act on a process: asked; with -wait done, refused, or unanswered (a worker takes it later).
//
// The result of settings set and settings back: in force, rolling out, forced, refused, dropped, rolled
// back, unchanged.
//
// A schedule, counter, gate, guard or lock that can't be read is listed as corrupt. Its error is a note, and is in its
// JSON line. Pauses of queues are one document: if that can't be read, queues list makes a note of it and shows none.
//
// processes show -json prints one line: an instance (process.Stream). Its steps have the members id, name, status,
// topic, key, msg, trackingId, created, timestamp, timeout, ref, tag, prev and next, and some more. processes show
// draws bars where a line has room for them, and marks the critical path.
//
// Notes and errors go to the standard error, and so does progress if that is a terminal. Only show prints a message's
// content, and why it or a schedule's run failed, because that may be personal. So may be what processes list prints:
// why one failed.
//
// The rates of top are per second. OUT (out_per_second) is what left a queue by the reports of its workers (package
// ops/catalog): done, poisoned and cancelled. change_per_second is the growth of the queue since the last look. IN
// (in_per_second) is OUT and the growth over the same time, so it is unknown until top has watched for the time of a
// report. Workers that publish no report count in neither.
//
// # Exit codes
//
//	0   done; -all may have found none
//	1   failed, or stopped by a signal: some of it may be done, and repeating the call is harmless; or a counter would
//	    have to be lowered; or a process has refused an act, or not answered in time
//	2   the command line can't be right, or discard or raise lacks both -yes and -dry-run, whatever there is: nothing
//	    is done
//	3   nothing matched, a named ID isn't there, there is no such document, lock or process, or doctor knows no queue
//	4   doctor has found something wrong
//
// A signal ends top with 0.
//
// # Laws
//
//   - A retry sends the message with its ID, kind and body to the queue that it came from, and then deletes the entry.
//     The message's counts of attempts start at zero. If the retry ends between the two steps the entry stays, and the
//     next retry sends the message again: replay records and notes of ReactOnce know its ID. If the message fails again
//     meanwhile, its new entry stays.
//   - A message's time is in its ID, or beside it. If that is more than 30 days ago, perhaps nothing remembers any more
//     whether the message was applied. Then the message returns to the poison queue as too old to judge, so its effect
//     can't happen twice. retry says beforehand how many messages have such a time, and edit refuses one of which
//     nobody can tell. An operator who knows that one was not applied sends it with another ID.
//   - A discard deletes the entry that was read. An entry that came in since then stays, and that is an error.
//   - An edited message is another message. Its ID follows from the old ID and the new content, and the old message is
//     its cause. So the same edit made twice is one message, also if the first one ended between the send and the
//     deletion of the entry. An edit is refused if the old message was applied or compensated for, and if nobody can
//     tell; -again sends it all the same.
//   - A message that send or edit sends fits the schema of its kind. The program that consumes its queue has published
//     that schema.
//   - An act on a process is a message to it. It stands in the process, with who it was and why. It is kept until a
//     worker of the plan takes it, and the process may refuse it. So an act that was asked for twice may be done twice:
//     a rerun.
//   - doctor and top change nothing. Nor do lists, but for one thing: those of locks and leaders delete what candidates
//     that died an hour ago have left behind.
//   - top leaves the terminal as it was, however it ends, unless it is killed. It does so at the first signal, before a
//     second one can end it.
//   - A failure that concerns one message fails that message alone. A store that can't be reached ends the run, except
//     that of top, which waits for it.
//
// # Files
//
//	verbs.go      the table of verbs: what help, completion and the parser know; each area adds its own verbs
//	operator.go   Program and Run: a call from its command line to its exit code; parse.go reads the words and flags
//	knowledge.go  what the programs of a store have published: who consumes a queue and handles a kind
//	output.go     tables and JSON lines; progress.go; coord.go also has pages and notes of many verbs
//	poison.go     which entries of the poison queues are meant
//	settle.go     retry and discard; edit.go and applied.go decide whether an edited message may be sent
//	halts.go      which keys the entries have halted
//	send.go       send; schema.go holds a body against the schema of its kind
//	queues.go     the numbers of queues, with unseen.go for those that no program names; pauses.go pauses them
//	values.go     documents, with collections.go; views.go rebuilds views
//	doctor.go     what is wrong; turnfindings.go, levels.go, listeners.go, lanes.go and others have findings, too
//	top.go        the screen that repeats itself; rates.go computes what it shows a second
//	processes.go  lists of instances; processes_show.go, _act.go (one), _many.go (a selection) and _verbs.go
//	settings.go   changes of settings; settings_status.go, _versions.go and _restart.go show them
//	coord.go      the table of verbs of counters (ids), gates, locks and leaders; counters.go, gates.go, locks.go act
//	guards.go     the verbs of guards; so have turns.go, schedules.go, signals.go and spools.go those of theirs
//	complete.go   completion
package operator
