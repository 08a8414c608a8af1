package main

// between is what stands between the two times of a hold.
const between = "\n\n// DeadFrom returns from when a holder counts as dead whose document or row a process has seen unchanged since a time.\nfunc DeadFrom(since time.Time, ttl time.Duration) time.Time { return "

// swapped are the two times on which the shares of package coord/limit rest, and the same the other way round.
var swapped = [2]string{
	"start.Add(ttl * 5 / 6) }" + between + "since.Add(ttl * 7 / 6) }",
	"start.Add(ttl * 7 / 6) }" + between + "since.Add(ttl * 5 / 6) }",
}

// limits are breaks of the laws of package limit, in their order.
func limits() []mutant {
	return []mutant{
		{
			name: "a process too many goes on with a part of its own",
			file: "coord/limit/internal/row/keeper.go",
			old:  "errors.Is(err, storage.ErrTooLarge)",
			new:  "errors.Is(err, nil)",
			by:   "coord/limit",
			test: "TestLaw9OneProcessTooManyMakesNoCalls",
		},
		{
			name: "few slots stay with the processes that have them",
			file: "coord/limit/internal/row/keeper.go",
			old:  "d.Turn = (d.Turn + 1) % maxUnits",
			new:  "d.Turn += 0",
			by:   "coord/limit",
			test: "TestLaw6FewSlotsPassFromOneToAnother",
		},
		{
			name: "a process that joins again begins to count its writes again",
			file: "coord/limit/internal/row/keeper.go",
			old:  "func (k *Keeper) join(b *bucket.Bucket) *member {\n",
			new:  "func (k *Keeper) join(b *bucket.Bucket) *member {\n	k.beat = 0\n",
			by:   "coord/limit",
			test: "TestLaw1AProcessThatJoinsAgain",
		},
		{
			name: "a process that joins again forgets the processes that it saw",
			file: "coord/limit/internal/row/keeper.go",
			old:  "func (k *Keeper) join(b *bucket.Bucket) *member {\n",
			new:  "func (k *Keeper) join(b *bucket.Bucket) *member {\n	k.seen = agree.Sighting[document]{}\n",
			by:   "coord/limit",
			test: "TestAProcessThatJoinsAgainWhileTheStoreIsAway",
		},
		{
			name: "a call that waits counts as refused only when it begins to wait",
			file: "coord/limit/internal/bucket/permits.go",
			old:  "refused: now.Before(p.due)}",
			new:  "refused: false}",
			by:   "coord/limit",
			test: "TestLaw3ASlowRateIsUsed",
		},
		{
			name: "a member goes although a slot is in use",
			file: "coord/limit/internal/bucket/keep.go",
			old:  "	if !b.idle(now) {\n",
			new:  "	if b.meter.underWay() == 0 && !b.idle(now) {\n",
			by:   "coord/limit/internal/row",
			test: "TestLaw1ASlotIsKeptWhileTheMemberGoes",
		},
		{
			name: "a share is raised before the write is acknowledged",
			file: "coord/limit/internal/bucket/keep.go",
			old:  "	if use < b.share.use {\n",
			new:  "	if use != b.share.use {\n",
			by:   "coord/limit",
			test: "TestLaw1OnlyAnAnswerRaises",
		},
		{
			name: "a share is in use until others may have it",
			file: "internal/agree/hold.go",
			old:  "start.Add(ttl * 5 / 6)",
			new:  "start.Add(ttl * 9 / 6)",
			by:   "coord/limit",
			test: "TestLaw2AShareEndsBeforeOthersHaveIt",
		},
		{
			name: "a share is in use for longer than others watch it",
			file: "internal/agree/hold.go",
			old:  swapped[0],
			new:  swapped[1],
			by:   "coord/limit",
			test: "TestLaw2AShareEndsBeforeOthersHaveIt",
		},
		{
			name: "a row is removed as soon as its share has ended",
			file: "internal/agree/hold.go",
			old:  "since.Add(ttl * 7 / 6)",
			new:  "since.Add(ttl * 5 / 6)",
			by:   "coord/limit/internal/row",
			test: "TestLaw2ClocksThatDrift",
		},
		{
			name: "a share is lowered after that was written",
			file: "coord/limit/internal/bucket/keep.go",
			old:  "	if use < b.share.use {\n",
			new:  "	if false {\n",
			by:   "coord/limit",
			test: "TestLaw1ALowerShareDoesNotWaitForItsWrite",
		},
	}
}
