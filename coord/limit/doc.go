// Package limit divides a number among the processes that use it: calls a second ([Rate]), or calls at a time
// ([Slots]). It works on any *storage.Store. A call costs no request, no matter how many there are.
//
//	mails, err := limit.NewRate(store, "smtp", 50, limit.Config{}) // of all processes together, each second
//	if err != nil {
//		return err
//	}
//	defer mails.Leave(ctx)
//	err = mails.Wait(ctx) // for a permit; mails.Take() doesn't wait
//
//	bank, err := limit.NewSlots(store, "bank", 20, limit.Config{}) // of all processes together, at a time
//	err = bank.Wait(ctx)
//	defer bank.Give()
//
// # How it works
//
// One blob in the container "shares" has a row for each process that uses the number. A row holds the process's limit,
// its share, what it wants, a beat that each of its writes counts up, also when it leaves and joins again, and its TTL
// of 20 seconds. All writes are guarded by the blob's ETag.
//
//	(no row) ─first call: a write─▶ member ─every TTL/3: a write─▶ member
//	                                │ └─no call for a TTL, or Leave: a write─▶ (no row)
//	                                └─row the same for 7/6 TTL: another process removes it─▶ (no row)
//
// A process that uses nearly all of its share, and was refused a call, wants all. A call counts as refused for as long
// as it waits. Otherwise the process wants somewhat more than it used. Each process computes the same targets from the
// rows: none gets more than it wants, and the rest is divided evenly among those that want more (max-min). A process
// whose share is above its target lowers it. A process whose share is below its target raises it, as far as the sum of
// all shares stays within the limit.
//
// A process keeps its own time: permits of a rate come evenly, by its monotonic clock. A new share's bucket is empty.
// The bucket holds the permits of 0.2 seconds, and at least one.
//
// # Laws
//
//  1. The shares in use never exceed the limit together. A process lowers its share before it writes that. It raises
//     its share after the write was acknowledged. A write whose outcome is unknown raises nothing.
//  2. A share is in use until 5/6 of its TTL after the start of its last acknowledged write. Others remove a row after
//     they have watched it for 7/6 of its TTL. So a share has ended before it is given to others;
//     internal/agree.Hold has the proof. Elapsed time on one machine counts; no two clocks are compared.
//  3. So in any time T, all processes together begin at most limit × T calls, and those that their buckets hold: the
//     limit of 0.2 seconds, and one for each process.
//  4. A process that stood still for longer than that begins no call afterwards, until a new write is acknowledged.
//     Calls that were under way go on.
//  5. The share of a dead process returns 7/6 of its TTL after others have seen its last beat. A slot belongs to a
//     process, so none is left behind.
//  6. The limit is the smallest that a live process has. When it is lowered, shares are lowered before one is raised. A
//     share of slots is lowered as its calls end. If more processes want a slot than there are slots, the slots change
//     hands every TTL.
//  7. A process that doesn't use its share leaves, and costs no request, no goroutine and no timer.
//  8. Rows that nobody renews are removed, whoever wrote them. A blob that can't be read as shares is replaced when it
//     has stayed the same for 70 seconds: by then every share has ended. So a damaged blob heals by itself. [Damaged]
//     names it until then.
//  9. A number has at most 500 processes, those included that died within the last 7/6 of their TTL. One more makes no
//     calls, and logs that, until another has left.
//
// # When the store is away
//
// A share ends 5/6 of a TTL after its last write. Then the process goes on with the limit divided by the number of
// processes that it saw last. This is the one case in which law 1 may break: when some processes reach the store and
// others don't. A process that was idle and joins again does the same. With Config.Strict neither process makes a call.
// A process that has never reached the store makes none either. The store counts as away after two things: calls have
// failed for a third of the TTL, and another call has failed after the end of the share. A time in which the process
// stood still doesn't count.
//
// # Cost
//
//   - A member makes 2 requests every TTL/3, 18 a minute, whatever the rate; and more while others want more or less.
//   - Joining and leaving take 2 requests each, and more if others write at the same moment.
//   - Where the store rings, a process that wants much more rings the others once every TTL/3. They make room at once.
//     Elsewhere they do that with their next write.
//   - A call takes some 100 ns.
//
// Measured in virtual time, with 100 calls a second and work that moves between processes each minute, while 4 % of the
// requests fail and a process is killed every second minute; the mean of 8 runs, and of the calls the most:
//
//	processes  most calls in 1, 10, 60 s   of the limit used   requests a minute and process
//	2          109, 1,009, 6,001           86 %, 96 % unkilled 31
//	8          107, 1,001, 5,876           86 %, 89 % unkilled 37
//	32         104, 983, 5,664             87 %, 86 % unkilled 50
//
// The rest is the share of the dead process, which is lost for 23 seconds, and what processes with little work keep for
// their next burst. A TTL of 10 seconds doubles the requests and gains nothing, because they collide.
//
// # Files
//
//	rate.go          calls a second
//	slots.go         calls at a time
//	config.go        how a process takes part, and what is refused
//	internal/bucket  the share in force, its permits and those that wait: under a mutex, without a store
//	internal/row     the document, the process's row in it, and when to look: one goroutine's own
package limit
