// Package alert tells people what is wrong with a store, once when it begins and once when it is over. One process of a
// program looks each minute, by package doctor, and calls a function of the program:
//
//	host.Program{
//		Alert: func(a *host.App) alert.Hook {
//			return func(ctx context.Context, x alert.Alert) error { return chat.Post(ctx, x.ID, x.String()) }
//		},
//	}
//
// Only what doctor calls wrong is told. A note is good to know, and wakes nobody.
//
// # Laws
//
//   - One process of a program looks and tells: the leader of alerts/NAME, of package leader. If the leader dies,
//     another process goes on within 90 seconds.
//   - A finding is told once when it begins, and once when it is over. A document in the store has all that was told,
//     so a restart, a roll-out or another leader tells nothing again. Told means that the hook has returned nil.
//   - A finding is known by its key ([doctor.Finding.Key]). So a poison queue that grows is told once.
//   - A finding begins when two looks in a row have found it. The finding is over when two looks in a row have looked
//     there and not found it. A part of the store that can't be read keeps its findings as they are. So nothing is told
//     of a store that can't be reached.
//   - A beginning or an end that could not be told is tried again at each round, with the same ID: after an error, a
//     panic or runtime.Goexit of the hook, and after a call that has taken 20 seconds. Such a call is given up. While 8
//     calls that were given up still run, no other one begins. The end is told after the beginning.
//   - The ID and the text of an alert are stored before the hook is called. A process may die after the hook has
//     succeeded, and before the store knows. Or the process stands still in a call while another one becomes the
//     leader. Then the alert is told once more, with the same ID, so a receiver that knows the ID shows the alert once.
//     The text is that of the beginning, without later numbers.
//   - A flood is no mail bomb. At most 5 alerts at a time are told one by one. The others that begin or end in the same
//     round are told together: one alert has the first of the findings, and the number of the rest (Alert.More). The
//     ends of findings that began together are told together. A round calls the hook 8 times at most. At most 500
//     findings are kept, and the log tells if there are more.
//   - A document that this package has not written, or that a newer version of the package has written, is left as it
//     is. Nothing is told then, and the log says why.
//   - The cost is as below. Without a hook nothing runs.
//
// # Cost
//
// A leader makes 3 requests a minute for its lease and 17 for a look. The look makes one more for each queue, for each
// version of a program that has published, for each queue in which keys may take turns, and for each thing that
// programs keep, such as a lock or a schedule. One listing counts all poison queues: a request for each
// page of the store's list, such as 5,000 messages on Azure. Of each of the first 20 poison queues, by name, the look
// reads up to 5 messages.
// Every tenth look also counts the lanes that a queue doesn't have: 51 requests for each queue that a worker consumes.
// So a program with three queues costs some 36 requests a minute. Each alert costs four more. A process that stands by
// makes 5 requests a minute. Processes that listen are not rung.
//
// # Files
//
//	alert.go  Alert, Config and Run: who leads, and when it looks
//	book.go   the document: what is wrong, and what was told of it
//	round.go  a round: look, note, tell
package alert
