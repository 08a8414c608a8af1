// Package settings lets a program's settings change while it runs: typed, in one document, and agreed to by every
// process that has them. It works on any *storage.Store.
//
//	type Shop struct {
//		Seats   int             `json:"seats"`
//		Mail    guard.Limits    `json:"mail"`
//		SMTP    settings.Secret `json:"smtp"`                       // "env:SMTP_URL" or "file:/run/secrets/smtp"
//		Workers int             `json:"workers" settings:"restart"` // holds from the next start on
//	}
//
//	func (s Shop) Check() error { return s.Mail.Check() } // optional: what is wrong with them
//
//	cfg, err := settings.Open(ctx, store, "shop", Shop{Seats: 40}, settings.Config{Cache: "data/shop.settings"})
//	if err != nil {
//		return err
//	}
//	defer cfg.Close(ctx)
//	s := cfg.Now() // *Shop; it never changes
//	cfg.Changing(func(ctx context.Context, from, to Shop) error { … }) // may say no
//	cfg.Changed(func(from, to Shop) { _ = mails.Set(to.Mail) }) // a guard
//	ending, err := cfg.Propose(ctx, settings.By("ada", "Black Friday"), func(s *Shop) { s.Seats = 60 })
//
// Operators use the verbs of millrace settings, or a [Ledger]. Neither knows the type. With [Config.Stages] a change
// comes to few nodes first, and is taken back if they are ill.
//
// # How it works
//
// A process that has opened settings is a node. The store has the values that somebody has set: a JSON merge patch
// (RFC 7396) on the program's defaults. So a program gets a new field, and a new default, without a change there.
//
//	settings/NAME/versions/0000000042  a version: values, changes, who, when, why. It is written once
//	settings/NAME/current              which version is in force, the candidate, its stage, the last 50 endings, an epoch
//	table settings, partition NAME     a row for each node: what it runs, and its answer to the candidate
//
// Each change of the current document is a guarded write, and counts up its epoch.
//
//	Propose ──▶ candidate ──every live node says yes──▶ stage 1 ──baked, all well──▶ … ──▶ in force
//	                │  └────one says no────▶ refused       └──ill, or a late no, or Back──▶ rolled back
//	                └──Back, or a forced change──▶ dropped
//
// Without stages it is in force at once.
//
// Each node decodes the candidate, resolves its secrets, runs Check, asks its Changing functions, and writes its answer
// into its row. The one that finds all answers there settles the candidate: a node, or the process that has proposed.
// A node whose row has been the same for three polls is dead, and isn't waited for. Nodes look at the document every 30
// seconds, each second while a candidate is checked, and at once where the store rings.
//
// # Stages
//
// Each node has a rank: a hash of node and version. In a stage the nodes with the lowest ranks run the candidate, one
// at least. These nodes are called canaries. Each reports its health in its row. A node that sees that one is ill, or
// that its row has been the same for three polls, rolls back by a write of the document. A canary's row is kept until
// then, and a node runs the candidate only after its row has said yes. So a death is always seen.
//
// All nodes drive. The last one that wrote goes on; when it has stopped, or has been silent for three polls, others do.
// The time that a driver counts for a bake lies between two writes of the document, and before the last beat of each
// canary: no time is counted twice, and none in which a canary may have been dead.
//
// A node that starts during a roll-out begins with the version in force, and is asked. No stage ends before its yes.
// When all canaries have stopped in order, others are chosen, and the bake begins again. A setting that waits for a
// restart takes no part: it waits from the end of the roll-out on, because a node that starts before has the version in
// force.
//
// # Laws
//
//   - At any time a node runs the version in force, or in its stage the candidate. Only one that can't reach the store,
//     or can't run that version, keeps its last, and says so: [Settings.State], and its row.
//   - A change is in force nowhere before every live node has decoded it, checked it and agreed to it. A forced change
//     is the exception; its ending names those that were passed over.
//   - A snapshot is whole and never changes. Decoding is strict: a field that a program doesn't have is a no.
//   - A node's epoch only grows while it runs. No node applies a version that was refused or dropped. No node applies
//     a version again that was rolled back.
//   - No stage ends without health. No silence is taken for health: a canary that dies is ill, and too few calls bake
//     longer. No roll-back waits for anybody. No change is taken back for an illness of before: an error of Health
//     counts only where Health was well before the change, or has been since. Until then Work alone judges. A call that
//     Work can't count doesn't count as a success.
//   - To lose the store changes nothing and stops nothing. A node starts from its cache then. A document that is empty,
//     damaged or lost is never a value, and the cache has only what was in force.
//   - Every change has who, when, why, and what it was before. It can be undone by its number, at once and without
//     anybody's consent, because the earlier version was in force before.
//   - Whatever Check, Changing, Health, Work and Changed do (panic, Goexit, hang) ends in a no, in a roll-back, or in a
//     line of the log.
//   - A secret's value is neither stored nor printed.
//
// A node that starts while a candidate is checked, or rolled out, first writes its row. Then it writes the document
// once more, as it is. So a node that has read the rows before that can't settle the candidate, which is a guarded
// write: it reads the rows again, and waits for the answer. If the candidate came into force first, the new node starts
// with that, or not at all if it can't run it. Its Changing functions aren't asked then: it has none before Open
// returns. A node that was cut off for three polls was not live meanwhile. It comes back in the same way, and a version
// that it can't run is its fault then.
//
// Back without a number drops a candidate. Repeated, it goes further back.
//
// # Cost
//
// Now is one atomic load. A node that starts makes three requests, and a write of the document while something changes.
// Every 30 seconds it reads the document ("not modified"), writes its row, and reads the rows. A change costs the
// proposer two writes and a write for its ending, and each node two looks. A roll-out costs one write of the document
// per poll.
//
// # Files
//
// The document, the rows of the nodes and the time decide. Node chooses a version by them, and voter and driver return
// the next document. Calls between files go down the list, never up.
//
//   - settings.go, config.go: what a program calls. set.go, ledger.go, back.go: what an operator calls
//   - propose.go: a change, from its version to its candidate. await.go: the wait for its ending. edit.go: how a write
//     is repeated, and has its effect once
//   - start.go: what a node begins with, also when the store is away. follow.go: the loop of a node, which reads, lets
//     the node heed, writes the row, and writes what voter and driver decide
//   - node.go: which version a node runs, and so when a version comes into force there; which document a node doesn't
//     heed, such as an older one; what the node's row says
//   - voter.go: how a node answers, and what the answers of all make of a candidate: agreed, refused or forced
//   - driver.go: who drives a roll-out, what illness is and rolls back, which time counts, and when a stage ends
//   - health.go: what a node says of its health, by the program's Health and Work
//   - program.go: the program's own code: Check, Changing and Changed. shape.go: its type, and which
//     settings wait for a restart. within.go: its time limit
//   - join.go: how a node that comes late is heard. waits.go, watch.go: who is waited for, and who lives
//   - document.go: what comes into force when a candidate ends, and when somebody goes back. rollout.go: whether an
//     agreed candidate is in force or begins its stages, which nodes are in a stage, and what follows the last stage
//   - nodes.go, ending.go, stages.go: the other forms. book.go: what is stored where. cache.go: the file for a start
//     without the store
//   - work.go: which work is worse. note.go, meter.go: notes, metrics. secret.go, patch.go, text.go: references to
//     secrets, merge patches, texts for people
package settings
