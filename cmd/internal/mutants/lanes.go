package main

// laned are breaks of what lanes promise.
func laned() []mutant {
	const by = "storage/lanes"
	return []mutant{
		{
			name: "the slow lane is never served while others wait",
			file: "storage/lanes/turn.go",
			old:  "c.weight = max(1, others) / slowLaneOthers",
			new:  "c.weight = 1e-9",
			by:   by, test: "TestTheSlowLaneIsServed",
		},
		{
			name: "the slow lane is served like any lane",
			file: "storage/lanes/turn.go",
			old:  "c.weight = max(1, others) / slowLaneOthers",
			new:  "c.weight = max(1, others)",
			by:   by, test: "TestTheSlowLaneIsServed",
		},
		{
			name: "the lane is by ID where a tenant is set",
			file: "storage/lanes/place.go",
			old:  "	k := keyOf(m.Tenant)\n",
			new:  "	k := keyOf(m.ID)\n",
			by:   by, test: "TestTheLaneIsByTenantWhereOneIsSet",
		},
		{
			name: "nobody is put aside",
			file: "storage/lanes/crowd.go",
			old:  "	return n >= noisyFrom && n*noisyShare > all\n",
			new:  "	return n < 0 && n*noisyShare > all\n",
			by:   by, test: "TestAQuietTenantBesideAFlood",
		},
		{
			name: "a tenant without a backlog is put aside",
			file: "storage/lanes/move.go",
			old:  "noisy.count(k, x.began) && backlog &&",
			new:  "noisy.count(k, x.began) && (backlog || true) &&",
			by:   by, test: "TestWithoutABacklogNobodyIsNoisy",
		},
		{
			name: "a tenant is noisy for ever",
			file: "storage/lanes/crowd.go",
			old:  "n != nil && now.Sub(n.changed) < quietFor {\n		return n.lane",
			new:  "n != nil {\n		return n.lane",
			by:   by, test: "TestAQuietMinuteEndsTheNoise",
		},
		{
			name: "a message is deleted from its lane before it is in the slow lane",
			file: "storage/lanes/move.go",
			old:  "	_, _ = m.inner.Commit(ctx, w)\n",
			new:  "	if _, err := m.inner.Commit(ctx, storage.Work{Delete: w.Delete}); err == nil {\n		_, _ = m.inner.Commit(ctx, storage.Work{Send: w.Send})\n	}\n",
			by:   by, test: "TestNothingIsLostOverMovesAndCrashes",
		},
	}
}

// reserves are breaks of what a worker's Reserve promises.
func reserves() []mutant {
	const by = "worker"
	return []mutant{
		{
			name: "lower messages take reserved handlers",
			file: "worker/crew.go",
			old:  "c.lowers < c.limit-kept(c.reserve, c.limit)",
			new:  "c.lowers < c.limit",
			by:   by, test: "TestLawReserveBoundsLowerMessages",
		},
		{
			name: "a worker holds as many lower messages as it can hold",
			file: "worker/room.go",
			old:  "r.limit - kept(r.reserve, r.least) - r.lower; n >=",
			new:  "r.limit - r.lower; n >=",
			by:   by, test: "TestLawReserveLeavesOthersInTheQueue",
		},
		{
			name: "lower messages in hand take the room of urgent ones",
			file: "worker/room.go",
			old:  "kept(r.reserve, r.least)-(r.held-r.lower))",
			new:  "kept(r.reserve, r.least)-r.held)",
			by:   by, test: "TestLawReserveLetsUrgentMessagesBegin",
		},
		{
			name: "a worker doesn't look again when lower messages may be received",
			file: "worker/intake.go",
			old:  "			in.room.whenLower(cancel)\n",
			new:  "			_ = cancel\n",
			by:   by, test: "TestLawReserveLeavesOthersInTheQueue",
		},
		{
			name: "the last handlers are reserved, too",
			file: "worker/reserve.go",
			old:  "min(reserved, places-1)",
			new:  "min(reserved, places)",
			by:   by, test: "TestLawReserveLeavesOneHandlerToAll",
		},
		{
			name: "Receive brings more lower messages than it may",
			file: "storage/lanes/limit.go",
			old:  "	return l.left > 0 || !l.concerns(c)\n",
			new:  "	return true\n",
			by:   by, test: "TestLawReserveLeavesOthersInTheQueue",
		},
		{
			name: "what the last look left in the queue waits for a poll",
			file: "worker/intake.go",
			old:  "			box.Hasten() // the last look left some\n",
			new:  "",
			by:   by, test: "TestLawReserveLeavesOthersInTheQueue",
		},
	}
}

// stashes are breaks of what is promised for messages that come along while others are moved, for the moves, and for
// broken lanes.
func stashes() []mutant {
	const by = "storage/lanes"
	return []mutant{
		{
			name: "what is in the stash at the end counts as a silent delivery",
			file: "storage/lanes/stash.go",
			old:  "s.unhad(x.d); ok && len(body)",
			new:  "s.unhad(x.d); !ok && len(body)",
			by:   by, test: "TestLawAStashIsHandedBackWhenTheWorkerStops",
		},
		{
			name: "a paused worker keeps its stash until the visibility ends",
			file: "storage/lanes/receive.go",
			old:  "x.began.Add(r.visibility / 2)",
			new:  "x.began.Add(r.visibility * 2)",
			by:   by, test: "TestLawAPausedWorkerHandsItsStashBack",
		},
		{
			name: "a lane that fails holds up the others",
			file: "storage/lanes/receive.go",
			old:  "	case !r.works(ctx):\n",
			new:  "	case len(r.got) == 0 || !r.works(ctx):\n",
			by:   by, test: "TestLawALaneThatFailsHoldsUpNoOther",
		},
		{
			name: "a caller that gives up breaks a lane",
			file: "storage/lanes/receive.go",
			old:  "	case errors.Is(ctx.Err(), context.Canceled): //",
			new:  "	case false && errors.Is(ctx.Err(), context.Canceled): //",
			by:   by, test: "TestLawACallerThatGivesUpBreaksNoLane",
		},
		{
			name: "a lane that has failed is forgotten",
			file: "storage/lanes/roster.go",
			old:  "!now.Before(b.again) &&",
			new:  "now.Before(b.again) && now.After(b.again) &&",
			by:   by, test: "TestLawALaneThatFailsHoldsUpNoOther",
		},
		{
			name: "a message whose body is a blob is moved by halves",
			file: "storage/lanes/move.go",
			old:  "mark.Apart && !m.inner.Atomic()",
			new:  "false",
			by:   by, test: "TestNothingIsLostOrPoisonedByAMoveThatIsCut",
		},
		{
			name: "a message waits for the document of noisy tenants",
			file: "storage/lanes/noisy.go",
			old:  "		go func() {\n			defer close(ended)\n			defer cancel()\n			c.get(ctx, etag)\n		}()\n",
			new:  "		c.mu.Unlock()\n		c.get(ctx, etag)\n		cancel()\n		close(ended)\n		c.mu.Lock()\n",
			by:   by, test: "TestADocumentThatHangsHoldsUpNoSend",
		},
	}
}

// lanedTurns are more of them.
func lanedTurns() []mutant {
	const by = "storage/lanes"
	return []mutant{
		{
			name: "noisy tenants stand in one line",
			file: "storage/lanes/crowd.go",
			old:  "		if n < tenants[lane] {",
			new:  "		if n < 0 {",
			by:   by, test: "TestABatchBesideAFloodTakesTurns",
		},
		{
			name: "priorities are strict",
			file: "storage/lanes/weights.go",
			old:  "		return float64(cmp.Or(w.Low, 1))\n",
			new:  "		return 1e-9 * float64(cmp.Or(w.Low, 1))\n",
			by:   by, test: "TestLowKeepsAFloor",
		},
		{
			name: "lanes that nothing is sent into any more are forgotten",
			file: "storage/lanes/roster.go",
			old:  "		if l.hot && l.broken.tries == 0 && !asked[l] && !(l.sweeping && l.moving) {\n",
			new:  "		if l.hot && l.current && !asked[l] && !(l.sweeping && l.moving) {\n",
			by:   by, test: "TestLaneChangesDrain",
		},
		{
			name: "an idle queue is looked at in all its lanes, where that is billed",
			file: "storage/lanes/roster.go",
			old:  "	case !busy && !r.props.Billed:\n",
			new:  "	case !busy:\n",
			by:   by, test: "TestIdleLanesCostWhatOneQueueCosts",
		},
		{
			name: "a lane saves its turns up",
			file: "storage/lanes/turn.go",
			old:  "		a.paid = min(max(a.paid, least), least+mostDebt)\n",
			new:  "		a.paid = min(a.paid, least+mostDebt)\n",
			by:   by, test: "TestALaneThatBeginsIsServedNextAndNotForLong",
		},
		{
			name: "a class pays in new weights for what it had with the old ones",
			file: "storage/lanes/weights.go",
			old:  "			c.paid = least + (c.paid-least)*c.weight/next\n",
			new:  "			c.paid = least + (c.paid - least)\n",
			by:   by, test: "TestLawLowIsNeverStarvedWhateverTheWeights",
		},
		{
			name: "a change of the weights holds only from the next start on",
			file: "storage/lanes/weights.go",
			old:  "		r.turn.weigh(w)\n",
			new:  "		_ = r.turn\n",
			by:   by, test: "TestLawWeightsChangeWhileAWorkerRuns",
		},
	}
}
