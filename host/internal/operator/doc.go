// Package operator is the command line of the people who run a program. It is made from the table of acts (package
// ops/acts): each act is a verb, and its fields are arguments and flags. top is the one verb of its own (package top),
// because it may have the terminal to itself.
//
//	millrace queues pause mails --for 30m --why "the mail server is down"
//	millrace poison retry --reason "too many attempts" --dry-run
//	millrace help queues pause
//
// A program's own binary has the same verbs. -name is read as --name. All verbs but those of spools take --store URL,
// which is also the environment variable MILLRACE_STORE. Without either it is data/NAME.db, by the name of the program.
// A store in a file that isn't there is an error, also for send: no worker would ever look there.
//
// # Output
//
// Without --json: tables for people, in which no part of a message can move the cursor. With --json: JSON lines, one
// object for each queue, message, document, finding and so on, in the forms that packages acts and doctor export. An
// unknown value is "–", and null in JSON. Notes and errors go to the standard error, and so does progress if that is a
// terminal.
//
// # Exit codes
//
//	0   done; --all may have found none
//	1   failed, or stopped by a signal: some of it may be done, and repeating the call is harmless; or a counter would
//	    have to be lowered; or a process has refused an act, or not answered in time
//	2   the command line can't be right, or an act that can't be taken back lacks both --yes and --dry-run, whatever
//	    there is: nothing is done
//	3   nothing matched, a named ID isn't there, there is no such document, lock or process, or doctor knows no queue
//	4   doctor has found something wrong
//
// A signal ends top with 0.
//
// # Laws
//
//   - No error repeats what may be a secret: an unknown word that isn't simple, or the URL of a store.
//   - The first signal ends an act well, and the second one ends the process. top gives the terminal back at the first.
//   - A store that can't be reached ends the run, except that of top, which waits for it.
//
// # Files
//
//	operator.go  Program and Run: a call from its command line to its exit code
//	command.go   the commands, made from the table of acts, with help and completion
//
// Package terminal writes what acts tell.
package operator
