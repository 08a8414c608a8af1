package main

import "slices"

// spools are breaks of the laws of package spool, in their order.
func spools() []mutant {
	return slices.Concat(spoolSends(), spoolForwards(), spoolFiles(), spoolEntries(), spoolQueues())
}

func spoolSends() []mutant {
	return []mutant{
		{
			name: "a message is accepted before the spool's file has it",
			file: "spool/file.go",
			old:  "	_, err := f.blobs.Put(limited, e.key(), body, storage.Condition{IfAbsent: true})\n",
			new:  "	err := limited.Err()\n	go func() { _, _ = f.blobs.Put(context.WithoutCancel(limited), e.key(), body, storage.Condition{IfAbsent: true}) }()\n",
			by:   "spool",
			test: "TestLaw1DurableBeforeSendReturns",
		},
		{
			name: "a Send tries a store that is known to be away",
			file: "spool/send.go",
			old:  "	tried := s.Waiting() == 0\n",
			new:  "	tried := true\n",
			by:   "spool",
			test: "TestLaw1WithinTheBudget",
		},
		{
			name: "a spooled message gets another ID",
			file: "spool/entry.go",
			old:  "		envelopes, b = append(envelopes, one), ",
			new:  "		one.ID = wire.NewID()\n		envelopes, b = append(envelopes, one), ",
			by:   "spool",
			test: "TestLaw2TheSameMessage",
		},
		{
			name: "a message overtakes those in the spool once the store is back",
			file: "spool/send.go",
			old:  "	tried := s.Waiting() == 0\n",
			new:  "	tried := s.Waiting() == 0 || s.Away() == nil\n",
			by:   "spool",
			test: "TestLaw3OldestFirst",
		},
	}
}

func spoolForwards() []mutant {
	return []mutant{
		{
			name: "a message that can't be sent holds up the others",
			file: "spool/forward.go",
			old:  "		case !isAway(err):\n			f.index.setAside(ctx, e, err)\n",
			new:  "		case !isAway(err):\n			return some, err\n",
			by:   "spool",
			test: "TestLaw6ARefusedMessageHoldsUpNoOther",
		},
		{
			name: "a message goes ahead of one that has failed once",
			file: "spool/forward.go",
			old:  "	if first.blamed++; first.blamed < blameFor {\n",
			new:  "	if first.blamed++; false {\n",
			by:   "spool",
			test: "TestLaw3OrderWhileTheStoreFlaps",
		},
		{
			name: "a message that always fails holds up those behind it for ever",
			file: "spool/forward.go",
			old:  "	if first.blamed++; first.blamed < blameFor {\n",
			new:  "	if first.blamed++; true {\n",
			by:   "spool",
			test: "TestLaw3AMessageThatFailsTenTimesLetsOnePast",
		},
		{
			name: "a message leaves the spool before the store has acknowledged it",
			file: "spool/forward.go",
			old:  "	packed, err := f.outbox.PackBy(limited, 1, envelopes)\n",
			new:  "	f.index.remove(ctx, good)\n	packed, err := f.outbox.PackBy(limited, 1, envelopes)\n",
			by:   "spool",
			test: "TestLaw7OutOfTheFileAfterTheAcknowledgement",
		},
		{
			name: "two programs share a spool",
			file: "spool/lock.go",
			old:  "	if !flock.Lock(f) {\n",
			new:  "	if false && !flock.Lock(f) {\n",
			by:   "spool",
			test: "TestLaw7OneProgram",
		},
		{
			name: "the stop leaves everything in the spool",
			file: "spool/forward.go",
			old:  "		stopping := ctx.Err() != nil\n",
			new:  "		stopping := ctx.Err() != nil\n		if stopping {\n			return\n		}\n",
			by:   "spool",
			test: "TestLaw8TheStop",
		},
	}
}

func spoolFiles() []mutant {
	return []mutant{
		{
			name: "a store's file is taken for a spool",
			file: "storage/sqlite/schema.go",
			old:  "	spoolSchema = engine.Schema{ApplicationID: spoolID, ",
			new:  "	spoolSchema = engine.Schema{ApplicationID: applicationID, ",
			by:   "spool",
			test: "TestLaw10ASpoolIsNoStore",
		},
		{
			name: "a program gets another one's messages from a spool",
			file: "spool/owner.go",
			old:  "	case its != owner{} && !its.is(mine) && waiting:\n",
			new:  "	case false && its != owner{} && !its.is(mine) && waiting:\n",
			by:   "spool",
			test: "TestLaw10AFileBelongsToOneProgramAndStore",
		},
		{
			name: "a spool whose lock file was removed is shared",
			file: "spool/lock.go",
			old:  "	if l.lost != nil || !isGone(l.path+\"-lock\", l.info) || !exists(l.path) {\n",
			new:  "	if true {\n",
			by:   "spool",
			test: "TestLaw10ARemovedLockFile",
		},
		{
			name: "nobody learns that a spool's file is gone until a Send needs it",
			file: "spool/health.go",
			old:  "	if err == nil && h.file.isGone() {\n",
			new:  "	if false && h.file.isGone() {\n",
			by:   "spool",
			test: "TestLaw7ARemovedFileShowsWithoutASend",
		},
		{
			name: "a spool that has failed says soon that it takes messages, although none can be written",
			file: "spool/health.go",
			old:  "	if f := h.failed.Load(); err == nil && f != nil {\n",
			new:  "	if f := h.failed.Load(); false && f != nil {\n",
			by:   "spool",
			test: "TestLaw7AFailureEndsWithAWrite",
		},
		{
			name: "a discard that ended half-way is told as one",
			file: "spool/remarks.go",
			old:  "name == discards && r.isOut(ctx, b.Key):\n",
			new:  "name == discards:\n",
			by:   "spool",
			test: "TestLaw6ADiscardThatEndsHalfWay",
		},
		{
			name: "doctor takes a queue that one worker leaves out for one that all leave out",
			file: "ops/internal/look/held.go",
			old:  "		if consumed[name] {\n",
			new:  "		if false && consumed[name] {\n",
			by:   "host/internal/operator",
			test: "TestQueuesThatWaitForTheirLevel",
		},
	}
}

func spoolEntries() []mutant {
	return []mutant{
		{
			name: "a discard is taken for a return of the store",
			file: "spool/forward.go",
			old:  "		return errNothing\n",
			new:  "		return nil\n",
			by:   "spool",
			test: "TestLaw6DiscardOfAWaitingEntry",
		},
		{
			name: "a damaged message of a spool is counted at each try",
			file: "spool/aside.go",
			old:  "		if a.entry == e {\n",
			new:  "		if false && a.entry == e {\n",
			by:   "spool",
			test: "TestLaw7ADamagedEntryInABatch",
		},
		{
			name: "a message whose Send failed stays in the spool, for the next start to send",
			file: "spool/index.go",
			old:  "		x.disown(e, err)\n",
			new:  "		x.release(e)\n",
			by:   "spool",
			test: "TestLaw7ASendThatFailsLeavesNothing",
		},
		{
			name: "the entry of another program is deleted with what a failed Send left",
			file: "spool/index.go",
			old:  "	if errors.Is(why, storage.ErrExists) {",
			new:  "	if false && errors.Is(why, storage.ErrExists) {",
			by:   "spool",
			test: "TestLaw7AnotherEntryUnderTheSameKeyStays",
		},
	}
}

func spoolQueues() []mutant {
	return []mutant{
		{
			name: "three queues that are away hold up all others",
			file: "spool/forward.go",
			old:  "			f.failedAt[lane] = f.failures\n",
			new:  "",
			by:   "spool",
			test: "TestLaw3QueuesThatAreAwayHoldUpNoOther",
		},
		{
			name: "Cancel doesn't know of messages that the spool has set aside",
			file: "channel/sender.go",
			old:  "c.spool.Unsent() > 0",
			new:  "c.spool.Waiting() > 0",
			by:   "spool",
			test: "TestCancelOfAMessageThatWasSetAside",
		},
		{
			name: "while the store is away, the spool tries every queue each time",
			file: "spool/forward.go",
			old:  "!sent && len(away) == mostLanes {\n",
			new:  "false && !sent && len(away) == mostLanes {\n",
			by:   "spool",
			test: "TestLaw3AnOutageCostsThreeTriesAtATime",
		},
	}
}
