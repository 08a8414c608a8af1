package main

import "slices"

// turns are breaks of the laws of turns and order.
func turns() []mutant {
	return slices.Concat(turnRows(), turnHandlers(), turnReactions(), turnsOfGivenUp(), turnsInDoubt(), outcomesInDoubt(), orders())
}

// turnRows are breaks of the laws of package coord/keylock.
func turnRows() []mutant {
	return []mutant{
		{
			name: "a turn is taken over while its holder may believe in it",
			file: "internal/agree/hold.go",
			old:  "since.Add(ttl * 7 / 6)",
			new:  "since.Add(ttl / 2)",
			by:   "coord/keylock",
			test: "TestLaw1TakeoverAfterTheContextHasEnded",
		},
		{
			name: "a turn's context outlives its proof",
			file: "internal/agree/hold.go",
			old:  "start.Add(ttl * 5 / 6)",
			new:  "start.Add(ttl * 9 / 6)",
			by:   "coord/keylock",
			test: "TestLaw1TakeoverAfterTheContextHasEnded",
		},
		{
			name: "the row of a key that waits for a late message is swept",
			file: "coord/keylock/sweep.go",
			old:  "kept += f.After ",
			new:  "kept += 0 ",
			by:   "coord/keylock",
			test: "TestLaw6QuietKeysLeaveNothing",
		},
		{
			name: "the row of a turn is swept while its holder lives",
			file: "coord/keylock/sweep.go",
			old:  " && ts.isFree(row.Key, d, row.ETag) {",
			new:  " {",
			by:   "coord/keylock",
			test: "TestLaw1NoClockEndsATurnThatIsHeld",
		},
		{
			name: "two turns of a key have one fence",
			file: "coord/keylock/turns.go",
			old:  "Fence: agree.NextFence(ts.store, s.Doc.Fence),",
			new:  "Fence: max(1, s.Doc.Fence),",
			by:   "coord/keylock",
			test: "TestLaw2FencesGrow",
		},
		{
			name: "a turn whose answer was lost blocks its key",
			file: "coord/keylock/turns.go",
			old:  "		*s = s.doubt(id)\n",
			new:  "",
			by:   "coord/keylock",
			test: "TestLaw3LostAnswers",
		},
		{
			name: "an unanswered try names the turn of a later one",
			file: "coord/keylock/turns.go",
			old:  "ts.try(ctx, key, rand.Text(), &s,",
			new:  "ts.try(ctx, key, key+ts.cfg.Holder+rand.Text()[:0], &s,",
			by:   "coord/keylock",
			test: "TestLaw3ATurnOfTheSecondTry",
		},
		{
			name: "a damaged turn blocks its key for ever",
			file: "coord/keylock/turns.go",
			old:  "		return s.TakenFor(maxTTL) ",
			new:  "		return maxTTL ",
			by:   "coord/keylock",
			test: "TestLaw5RowsThatAreNoTurns",
		},
		{
			name: "the time of a pause counts as patience",
			file: "coord/keylock/wait.go",
			old:  "min(time.Since(w.refused), most)",
			new:  "max(time.Since(w.refused), most-most)",
			by:   "coord/keylock",
			test: "TestLaw8OnlyRoundsOfAWitnessCount",
		},
		{
			name: "others that stand in a backlog count as patience",
			file: "coord/keylock/wait.go",
			old:  "m.Message == w.witness.Message && m.Deliveries > w.witness.Deliveries",
			new:  "m.Deliveries > 0",
			by:   "worker",
			test: "TestLawOneAtATimeABacklogIsNotWaitedFor",
		},
		{
			name: "a copy of a message that waits counts as patience",
			file: "coord/keylock/wait.go",
			old:  " && m.Deliveries > w.witness.Deliveries",
			new:  "",
			by:   "coord/keylock",
			test: "TestLaw8OthersInABacklogProveNothing",
		},
		{
			name: "patience begins before the first message is due",
			file: "coord/keylock/wait.go",
			old:  "	if late < 0 || len(here) == 0 {\n",
			new:  "	if len(here) == 0 {\n",
			by:   "coord/keylock",
			test: "TestLaw8NoRoundBeginsBeforeTheFirstIsDue",
		},
		{
			name: "a key whose witness is gone waits for ever",
			file: "coord/keylock/wait.go",
			old:  "w.refused.IsZero() || time.Since(w.refused) >= max(3*most, late/2): ",
			new:  "w.refused.IsZero(): ",
			by:   "coord/keylock",
			test: "TestLaw8PatienceEnds",
		},
		{
			name: "a key waits for ever under a backlog",
			file: "coord/keylock/wait.go",
			old:  "max(3*most, late/2)",
			new:  "3*most",
			by:   "coord/keylock",
			test: "TestLaw8PatienceEnds",
		},
		{
			name: "an event counts as done under a row that says all are",
			file: "coord/keylock/document.go",
			old:  "	ok := s.Done <= maxNumber && ",
			new:  "	ok := ",
			by:   "coord/keylock",
			test: "TestLaw5RowsThatAreNoTurns",
		},
		{
			name: "a halt is forgotten when its key is quiet",
			file: "coord/keylock/sweep.go",
			old:  "d.State.Halted == nil && ",
			new:  "",
			by:   "coord/keylock",
			test: "TestLaw6QuietKeysLeaveNothing",
		},
	}
}

// turnHandlers are breaks of the laws of handlers.ReactInOrder.
func turnHandlers() []mutant {
	return []mutant{
		{
			name: "an event runs before the one before it",
			file: "coord/keylock/order.go",
			old:  "		return Early\n",
			new:  "		return Next\n",
			by:   "coord/keylock",
			test: "TestLawOfOrder",
		},
		{
			name: "an event that others went past counts as done",
			file: "coord/keylock/order.go",
			old:  "	s.Past = append(s.Past, Span{from, to})\n",
			new:  "	_ = from\n",
			by:   "coord/keylock",
			test: "TestLawOfOrder",
		},
	}
}

// turnReactions are breaks of the laws of handlers.OneAtATime.
func turnReactions() []mutant {
	return []mutant{
		{
			name: "an emission doesn't name the one before it",
			file: "values/apply.go",
			old:  "		u.order(&x)\n",
			new:  "",
			by:   "values",
			test: "TestAnEmissionNamesTheOneBefore",
		},
		{
			name: "a message that failed loses its place",
			file: "internal/handling/taketurn.go",
			old:  "		s.Wait(id, after, d.number())\n		t.held = behind(s.First.After)\n",
			new:  "",
			by:   "worker",
			test: "TestLawOneAtATimeAFailedMessageKeepsItsPlace",
		},
		{
			name: "a handler that hangs gives its turn away",
			file: "internal/handling/taketurn.go",
			old:  "	if len(t.hangs) > 0 {\n",
			new:  "	if false {\n",
			by:   "worker",
			test: "TestLawOneAtATimeAHangKeepsItsTurn",
		},
		{
			name: "a message that waits for its turn spends an attempt",
			file: "internal/handling/verdict/errors.go",
			old:  "	return &LaterError{After: after, Reason: reason, wait: why}\n",
			new:  "	return fmt.Errorf(\"%s: %s, %v\", why, reason, after)\n",
			by:   "worker",
			test: "TestLawOneAtATimeOneAtATime",
		},
		{
			name: "others go past a poisoned message that halts its key",
			file: "internal/handling/taketurn.go",
			old:  "	case o.Err == nil || poisoned && !t.of.halt:\n",
			new:  "	case o.Err == nil || poisoned:\n",
			by:   "worker",
			test: "TestLawOneAtATimeHalts",
		},
		{
			name: "a key waits for ever for a message that is gone",
			file: "internal/handling/taketurn.go",
			old:  "!t.of.ordered && (waited < patience ||",
			new:  "!t.of.ordered && (waited < patience*1000 ||",
			by:   "worker",
			test: "TestLawOneAtATimePatienceEnds",
		},
		{
			name: "others go past a message as soon as their patience is out after a pause",
			file: "internal/handling/taketurn.go",
			old:  "	waited := w.Count(s, patience/leastRounds, waiters(ds)...)\n",
			new:  "	waited := w.Seen() + 0*w.Count(s, patience/leastRounds, waiters(ds)...)\n",
			by:   "worker",
			test: "TestLawOneAtATimeAPauseIsNotWaitedFor",
		},
		{
			name: "messages behind a halt are looked at each minute for ever",
			file: "internal/handling/taketurn.go",
			old:  "min(max(seen, haltedLeast), haltedMost)",
			new:  "min(max(0*seen, haltedLeast), haltedMost)",
			by:   "worker",
			test: "TestLawOneAtATimeAHaltedKeyCostsLittle",
		},
		{
			name: "an event is deleted before it is noted as done",
			file: "worker/keyturn.go",
			old:  "	if err := r.turn.End(ctx); err != nil {\n",
			new:  "	if err := r.turn.End(ctx); err != nil && false {\n",
			by:   "worker",
			test: "TestLawInOrderAnEndThatFails",
		},
	}
}

// turnsOfGivenUp are breaks of the laws of messages that are given up, and of keys that are released.
func turnsOfGivenUp() []mutant {
	return []mutant{
		{
			name: "a release is undone by the turn that it has met",
			file: "coord/keylock/turn.go",
			old:  "; by.after(s.Released) {\n",
			new:  "; by == nil && by.after(s.Released) {\n",
			by:   "coord/keylock",
			test: "TestLaw3ASavedStateIsTheNextOnes",
		},
		{
			name: "a message that is given up without its handler doesn't reach its turn",
			file: "worker/open.go",
			old:  "	return m.delivery != nil\n",
			new:  "	m.delivery = nil\n	return false\n",
			by:   "worker",
			test: "TestLawInOrderAnEventGivenUpWithoutItsHandler",
		},
		{
			name: "a message goes to the poison queue before its turn is written",
			file: "worker/keyturn.go",
			old:  "	if poisoned || o.Err == nil && r.turn.Awaited(m.delivery) {\n",
			new:  "	if !poisoned && o.Err == nil && r.turn.Awaited(m.delivery) {\n",
			by:   "worker",
			test: "TestLawOneAtATimeNothingIsPoisonedUntilItsTurnIsWritten",
		},
		{
			name: "the key of a message that kills its workers isn't looked for",
			file: "worker/open.go",
			old:  " || o.registry.Handlers.KeyInBody(o.queue, m.envelope.Kind)\n",
			new:  "\n",
			by:   "worker",
			test: "TestLawOneAtATimeAMessageGivenUpWithoutItsHandler",
		},
		{
			name: "a copy of an event that is done halts its value object",
			file: "internal/handling/taketurn.go",
			old:  "d.place(s) != keylock.Next:\n",
			new:  "d.place(s) == keylock.Late:\n",
			by:   "worker",
			test: "TestLawInOrderAnEventIsGivenUpInItsTurn",
		},
		{
			name: "a turn whose handler hangs forgets what it knows",
			file: "internal/handling/taketurn.go",
			old:  "		err := t.turn.Save(ctx, t.state) ",
			new:  "		err := context.Cause(context.WithoutCancel(ctx)) ",
			by:   "worker",
			test: "TestLawOneAtATimeAHangThatIsGivenUpHalts",
		},
	}
}

// turnsInDoubt are breaks of the laws of outcomes that are unknown, and of turns that can't be written.
func turnsInDoubt() []mutant {
	return []mutant{
		{
			name: "an unknown outcome is forgotten with its turn",
			file: "internal/handling/taketurn.go",
			old:  "	if !verdict.Judge(o.Err).OutcomeUnknown() {\n",
			new:  "	if true {\n",
			by:   "worker",
			test: "TestLawOneAtATimeAnUnknownOutcomeOutlivesItsTurn",
		},
		{
			name: "an unknown outcome waits until its turn is written",
			file: "worker/keyturn.go",
			old:  "			if !isUnknown(r.outcomes[m].Err) { ",
			new:  "			if true { ",
			by:   "worker",
			test: "TestLawOneAtATimeAnUnknownOutcomeOutlivesItsTurn",
		},
		{
			name: "a key waits for a message that is done",
			file: "internal/handling/taketurn.go",
			old:  " || s.IsFirst(id) || s.IsHalt(id)\n",
			new:  " || s.IsHalt(id)\n",
			by:   "worker",
			test: "TestLawOneAtATimeNobodyWaitsForWhatIsDone",
		},
		{
			name: "a message that is done halts its key for ever",
			file: "internal/handling/taketurn.go",
			old:  " || s.IsFirst(id) || s.IsHalt(id)\n",
			new:  " || s.IsFirst(id)\n",
			by:   "worker",
			test: "TestLawOneAtATimeNobodyWaitsForWhatIsDone",
		},
		{
			name: "a number makes a turn's row unreadable",
			file: "coord/keylock/order.go",
			old:  "	if sequence != s.Done {\n		return\n	}\n",
			new:  "",
			by:   "coord/keylock",
			test: "TestLaw5NoNumberMakesARowUnreadable",
		},
	}
}

// outcomesInDoubt are breaks of the law that no unknown outcome is called again.
func outcomesInDoubt() []mutant {
	return []mutant{
		{
			name: "a message of unknown outcome comes back when the poison queue fails once",
			file: "worker/giveup.go",
			old:  "e.Reason != handlers.ReasonOutcomeUnknown || isStale(err)",
			new:  "true || isStale(err)",
			by:   "worker",
			test: "TestLawAnUnknownOutcomeWaitsForThePoisonQueue",
		},
		{
			name: "a worker that stops waits for the poison queue",
			file: "worker/giveup.go",
			old:  "			stopped = s.stopped\n",
			new:  "			stopped = nil\n",
			by:   "worker",
			test: "TestLawAnUnknownOutcomeHoldsNoStopUp",
		},
		{
			name: "an unknown outcome that can't be noted is forgotten",
			file: "internal/handling/once/once.go",
			old:  "			if n.noteOutcome(ctx) != nil {\n",
			new:  "			if n.noteOutcome(ctx); false {\n",
			by:   "internal/handling/once",
			test: "TestOnceKnowsAnUnknownOutcomeThatCannotBeNoted",
		},
		{
			name: "a process forgets a success that it could not note",
			file: "internal/handling/once/once.go",
			old:  "		ns.doubts.keep(&n)\n		return err\n",
			new:  "		return err\n",
			by:   "internal/handling/once",
			test: "TestOnceKnowsASuccessThatCannotBeNoted",
		},
		{
			name: "an unknown outcome is noted only when a copy comes",
			file: "internal/handling/once/doubt.go",
			old:  "	d.noteAfter(firstTry, n, time.Now().Add(triesFor))\n",
			new:  "",
			by:   "internal/handling/once",
			test: "TestOnceKnowsAnUnknownOutcomeThatCannotBeNoted",
		},
		{
			name: "an unknown outcome is forgotten when its note is taken over",
			file: "internal/handling/once/once.go",
			old:  "n.taken && !verdict.Judge(verdict.Settled(err)).OutcomeUnknown() {",
			new:  "n.taken {",
			by:   "internal/handling/once",
			test: "TestOnceKnowsAnUnknownOutcomeOfATakenNote",
		},
	}
}
