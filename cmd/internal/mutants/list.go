package main

import "slices"

// A mutant is one deliberate break of a law.
type mutant struct {
	name string
	file string // path within the module
	old  string // text that occurs once in the file
	new  string
	by   string // the package with the test that must catch it; "" stands for the simulation
	test string // that test, or a subtest
}

// mutants are all breaks. A break that the simulation can't catch has the reason beside it.
func mutants() []mutant {
	return slices.Concat(promises(), parts(), processes(), schedules(), scheduledRuns(), guards(), adaptives(), guardedCalls(), limits(), deferrals(), bodies(), spools(), guardsOfPrograms(), changes(), laned(), acted(), alerted(), lanedTurns(), reserves(), stashes(), turns(), coordination(), wrongClocks(), rights(), bulkActed(), entered(), cameIn(), asked(), repeated(), bulkGoesOn(), onRedis(), ofRedisProcesses(), ofRedisRepeats())
}

// promises are breaks of the whole.
func promises() []mutant {
	return []mutant{
		{
			name: "the message is deleted before the document is written",
			file: "storage/commit.go",
			old:  "	var done Committed\n	if x := w.Rows; x != nil {",
			new: "	for _, c := range w.Delete {\n		_ = s.Queue(c.Queue).Delete(ctx, []Receipt{c.Receipt})\n	}\n	w.Delete = nil\n" +
				"	var done Committed\n	if x := w.Rows; x != nil {",
		},
		{
			name: "events are sent before the document is written",
			file: "storage/commit.go",
			old:  "	var done Committed\n	if x := w.Rows; x != nil {",
			new: "	for _, x := range w.Send {\n		if err := s.Queue(x.Queue).Send(ctx, []Message{x.Message}); err != nil {\n			return Committed{}, err\n		}\n	}\n	w.Send = nil\n" +
				"	var done Committed\n	if x := w.Rows; x != nil {",
		},
		{
			name: "a command that was decided is not recorded",
			file: "values/apply.go",
			old:  "		d.record.add(x)\n",
			new:  "",
		},
		{
			name: "an emission has a random ID",
			file: "internal/wire/compose.go",
			old:  "		e.derive(parent, born, parts...)\n",
			new:  "		e.ID = NewID() + parts[0][:0]\n",
			by:   "values", // repeats come from the document, so only two workers that decide the same event make two of it
			test: "TestLargePending",
		},
		{
			name: "an emission that is sent again has a random ID",
			file: "values/pending.go",
			old:  "		*to = append(*to, e)\n",
			new:  "		e.ID = channel.NewID()\n		*to = append(*to, e)\n",
		},
		{
			name: "an emission that is due later is sent at once",
			file: "internal/wire/compose.go",
			old:  "	born := parent.Born()\n	if !e.Due.IsZero() {\n",
			new:  "	e.Due = time.Time{}\n	born := parent.Born()\n	if !e.Due.IsZero() {\n",
		},
		{
			name: "an emission that is sent again is due later",
			file: "values/pending.go",
			old:  "		*to = append(*to, e)\n",
			new: "		if !e.Due.IsZero() {\n			e.Due = e.Due.Add(e.Due.Sub(e.Time))\n			e.ID = channel.DerivedID(e.ID, e.Due.String())\n		}\n" +
				"		*to = append(*to, e)\n",
		},
		{
			name: "an emission that is due later is not pending",
			file: "values/pending.go",
			old:  "		*to = append(*to, e)\n",
			new:  "		if e.Due.IsZero() {\n			*to = append(*to, e)\n		}\n",
		},
		{
			name: "an emitted command is not pending",
			file: "values/pending.go",
			old:  "		*to = append(*to, e)\n",
			new:  "		if _, err := c.channels.Routes().CommandQueue(e.Kind); err != nil {\n			*to = append(*to, e)\n		}\n",
		},
		{
			name: "an event changes a value object without a record",
			file: "values/apply.go",
			old:  "	if !x.known {\n",
			new:  "	if !x.known && u.changes[i].Group == \"\" {\n",
		},
		{
			name: "the groups that take an event to one value object share a record",
			file: "values/record.go",
			old:  "	if group != \"\" {\n",
			new:  "	if group == \"?\" {\n",
		},
		{
			name: "what two groups make of an event has the same ID",
			file: "internal/wire/compose.go",
			old:  "	if group != \"\" {\n",
			new:  "	if group == \"?\" {\n",
			by:   "values", // in the simulation only one of the two emits
			test: "TestEachGroupHasARecordOfItsOwn",
		},
		{
			name: "the ETag is ignored",
			file: "values/apply.go",
			old:  "If: u.doc.condition()}",
			new:  "}",
		},
		{
			name: "of two commands folded together only the first one's events are sent",
			file: "values/apply.go",
			old:  "		u.emits = append(u.emits, x)\n",
			new:  "		if u.applied == 0 {\n			u.emits = append(u.emits, x)\n		}\n",
		},
		{
			name: "a replay does not send the events that are recorded",
			file: "values/apply.go",
			old:  "			u.resend = append(u.resend, p)\n",
			new:  "",
		},
		{
			name: "nobody sends the events of a worker that died",
			file: "values/pending.go",
			old:  "	if len(orphaned) > 0 {",
			new:  "	if len(orphaned) > 1<<30 {",
		},
		{
			name: "what leaves the window is not kept",
			file: "values/rows.go",
			old:  "Partition: u.key, Puts: rows}",
			new:  "Partition: u.key}",
		},
		{
			name: "what leaves the window is kept after the write that forgets it",
			file: "values/apply.go",
			by:   "values", // a worker dies between two writes, and long after it somebody repeats a command that only the row knew
			test: "TestOnlyCommittedEntriesBecomeRows",
			old:  "		if err := u.c.rows.PutRows(u.ctx, rows.Partition, rows.Puts); err != nil {\n			return u.fault(err)\n		}\n		rows = nil\n",
			new: "		late := rows\n		defer func() {\n			if err == nil {\n				err = u.c.rows.PutRows(u.ctx, late.Partition, late.Puts)\n			}\n		}()\n" +
				"		rows = nil\n",
		},
		{
			name: "what lies beyond a page of rows counts as absent",
			file: "values/rows.go",
			old:  "		if n < limit {\n",
			new:  "		if n <= limit {\n",
			by:   "values", // a fold of the simulation has too few late messages for a second page
			test: "TestTenThousandMessages",
		},
		{
			name: "only the window is asked",
			file: "values/record.go",
			old:  "return r.left && (x.keyed || x.time <= r.watermark)",
			new:  "return r.left && false",
		},
		{
			name: "messages too old to judge are guessed about",
			file: "values/apply.go",
			old:  "			return false, ErrTooOld\n",
			new:  "",
			by:   "values", // a run of the simulation is shorter than the 30 days
			test: "TestClockBehindRetention",
		},
		// Nor is it as long as idempotency keys are remembered.
		{
			name: "an idempotency key too old to judge is guessed about",
			file: "values/rows.go",
			old:  "{ return x.before(u.now",
			new:  "{ return !x.keyed && x.before(u.now",
			by:   "values",
			test: "TestAKeyTooOldIsRefused",
		},
		{
			name: "the row of an idempotency key is looked up by the time of the copy",
			file: "values/record.go",
			old:  "	from := keyedRows + hex.EncodeToString(x.id[:])\n",
			new:  "	from := x.rowKey()\n",
			by:   "values",
			test: "TestTwoSendsOfAKeyAreOne",
		},
		{
			name: "rows of idempotency keys are kept no longer than others",
			file: "values/record.go",
			old:  "	return timeKey(x.time+retention.Milliseconds())",
			new:  "	return timeKey(x.time+0*retention.Milliseconds())",
			by:   "values",
			test: "TestTwoSendsOfAKeyAreOne",
		},
		{
			name: "rows of idempotency keys are never deleted",
			file: "values/forget.go",
			old:  "			keyed = append(keyed, ends)\n",
			new:  "			_ = ends\n",
			by:   "values",
			test: "TestRowsOfKeysEnd",
		},
		{
			name: "the row that ends another is deleted before it",
			file: "values/forget.go",
			old:  "	if c.rows.DeleteRows(ctx, key, keyed) == nil {",
			new:  "	if keyed, old = old, keyed; c.rows.DeleteRows(ctx, key, keyed) == nil {",
			by:   "values",
			test: "TestForgettingKeysCrashes",
		},
		{
			name: "notes of idempotency keys are never deleted",
			file: "internal/handling/once/sweep.go",
			old:  "				old = append(old, row.Key)\n",
			new:  "",
			by:   "internal/handling/once",
			test: "TestNotesOfKeysEnd",
		},
		{
			name: "an outdated document is believed about a replay that a row tells of",
			file: "values/apply.go",
			old:  "		u.byRow = u.byRow || found\n",
			new:  "",
			by:   "values", // it takes a late worker, a dead one and a third between two reads
			test: "TestReplayByARowIsProved",
		},
		{
			name: "another content under the same ID is taken for a replay",
			file: "values/apply.go",
			old:  "	if found && !same {\n",
			new:  "	if found && !same && x.time < 0 {\n",
		},
		{
			name: "a view, which emits nothing, has no record",
			file: "values/apply.go",
			old:  "	if !x.known {\n",
			new:  "	if !x.known && len(emissions) > 0 {\n",
		},
		{
			name: "an older event overwrites a newer one",
			file: "views/view.go",
			old:  "	if sequence <= f.Sources[source] {\n		return f\n	}\n	f.View",
			new:  "	f.View",
		},
		{
			name: "a message of an unknown kind is done",
			file: "worker/settle.go",
			old:  "	case verdict.UnknownKind:\n",
			new:  "	case verdict.UnknownKind:\n		s.deletes.add(m)\n		return\n",
		},
		{
			name: "a stop costs an attempt",
			file: "worker/settle.go",
			old:  "		s.handBack(ctx, m, 0, nil) // the handler may have failed because it was told to stop\n",
			new:  "		m.history().Attempts++\n		s.handBack(ctx, m, 0, nil)\n",
			by:   "worker", // it takes five stops in the middle of one handler
			test: "TestStopBesideASuspect",
		},
		{
			name: "a handler runs on when its message may be in other hands",
			file: "worker/claim.go",
			old:  "		c.own.End(ErrOwnershipLost)\n",
			new:  "		_ = ErrOwnershipLost\n",
			by:   "worker", // the effects stay right, which is all that the auditor looks at
			test: "TestLostIsNotRenewed",
		},
		{
			name: "a message is renewed when it may be in other hands",
			file: "worker/claim.go",
			old: "	if c.settling || c.lost || time.Since(c.owned) < due {\n		return false, nil\n	}\n	began := time.Now()\n" +
				"	// The timeout is so short that a store that hangs leaves time for another try.\n" +
				"	ctx, cancel := context.WithTimeout(ctx, min(limit-began.Sub(c.owned), visibility/6))\n",
			new: "	if c.settling || time.Since(c.owned) < due {\n		return false, nil\n	}\n	began := time.Now()\n" +
				"	ctx, cancel := context.WithTimeout(ctx, visibility/6)\n",
			by:   "worker", // likewise
			test: "TestLostIsNotRenewed",
		},
		{
			name: "a message that can't be handled is not found in the poison queue",
			file: "poison/poison.go",
			old:  "		Write:  &storage.Write{Container: container, Key: e.Queue + \"/\" + e.Key, Body: b},\n",
			new:  "		Write:  &storage.Write{Container: \"elsewhere\", Key: e.Key, Body: b},\n",
		},
		{
			name: "a retry from the poison queue has a new ID",
			file: "poison/back.go",
			old:  `	e.DataRef, e.Attempts,`,
			new:  "	e.ID = channel.NewID()\n	e.DataRef, e.Attempts,",
			by:   "worker",
			test: "TestPoisonQueue",
		},
		{
			name: "a compensation is sent in a unit of its own",
			file: "worker/giveup.go",
			old:  "	err = poison.Put(ctx, s.store, &m.envelope, *e, ",
			new:  "	if err := outbox.SendPacked(ctx, packed); err != nil {\n		return nil, err\n	}\n	err = poison.Put(ctx, s.store, &m.envelope, *e, ",
			by:   "worker", // the simulation has no compensation
			test: "TestOnPoisonIsPartOfTheUnit",
		},
		{
			name: "a compensation has new IDs each time",
			file: "internal/wire/compose.go",
			old:  "		e.ID = DerivedID(parent.ID, \"poison\", queue, string(content[:]), strconv.Itoa(n))\n",
			new:  "		e.ID = NewID() + string(content[:0])\n",
			by:   "worker",
			test: "TestOnPoisonAgain",
		},
		{
			name: "a handler runs although its message is given up",
			file: "worker/open.go",
			old:  "	return m.silentDeliveries > 0 && !o.store.Atomic() && o.registry.Compensations.Has(o.queue, m.envelope.Kind)\n",
			new:  "	return false\n",
			by:   "worker",
			test: "TestGivingUpWithEveryFault",
		},
		{
			name: "attempts count from zero",
			file: "handlers/attempt.go",
			old:  "	return h.Envelope.Attempts + 1, ",
			new:  "	return h.Envelope.Attempts, ",
			by:   "handlers",
			test: "TestAttempt",
		},
		{
			name: "an effect is noted before it has happened",
			file: "internal/handling/once/once.go",
			old:  "	mark.Holder, mark.Beat = n.holder, n.beat\n",
			new:  "	mark.Holder, mark.Beat, mark.Done = n.holder, n.beat, true\n",
		},
		{
			name: "what a reaction sends has a new ID each time",
			file: "internal/wire/compose.go",
			old:  "		e.derive(h.origin(), born, \"sent by\", h.Queue, content, strconv.Itoa(h.CountSent(content)))\n",
			new:  "		e.ID = NewID() + strconv.Itoa(h.CountSent(content))[:0]\n",
		},
		{
			name: "what an agent sends has a new ID in each attempt",
			file: "internal/wire/compose.go",
			old:  "	if h.work.Key == \"\" {\n		return &h.Envelope",
			new:  "	if true {\n		return &h.Envelope",
			by:   "process",
			test: "TestWhatAnAgentSendsIsOneMessage",
		},
		// The simulation's power never fails, and its transactions do not.
		{
			name: "a deletion is answered before the disk has it",
			file: "storage/sqlite/internal/engine/writer.go",
			old:  "		if err == nil && o.Late && w.mode.relaxed && !w.normal {",
			new:  "		if false {",
			by:   "storage/sqlite/internal/engine",
			test: "TestPowerFailure",
		},
		{
			name: "nobody tells of a process that stands still while callers leave early",
			file: "storage/sqlite/internal/engine/write_watch.go",
			old:  "		x.vain += waited",
			new:  "		x.vain = waited",
			by:   "storage/sqlite/internal/engine",
			test: "TestAWriterThatStandsStillIsNamed",
		},
		{
			name: "no sync follows a deletion",
			file: "storage/sqlite/queue.go",
			old:  "Size: 100 * n, Late: true}",
			new:  "Size: 100 * n, Relaxed: true}",
			by:   "storage/sqlite",
			test: "TestDeletionsAreLate",
		},
		{
			name: "a send doesn't wait for the disk beside a claim",
			file: "storage/sqlite/internal/engine/writer.go",
			old:  "		relaxed = relaxed && (o.Relaxed || o.Late)",
			new:  "		relaxed = relaxed && (o.Relaxed || o.Late || len(group) > 1)",
			by:   "storage/sqlite/internal/engine",
			test: "TestWhatWaitsForTheDisk",
		},
		{
			name: "the log is made longer where it ended when this process last looked",
			file: "storage/sqlite/internal/engine/log_end.go",
			old:  "	e.size = info.Size()\n",
			new:  "	if e.size == 0 {\n		e.size = info.Size()\n	}\n",
			by:   "storage/sqlite/internal/engine",
			test: "TestLogIsAhead",
		},
		{
			name: "what is handed over stays so when its transaction is undone",
			file: "storage/sqlite/tx.go",
			old:  "	w.wants.settle(false)\n",
			new:  "	w.wants.settle(true)\n",
			by:   "storage/sqlite",
			test: "TestAwaitLeavesDuringCommit",
		},
		{
			name: "rows of a unit of work are forgotten",
			file: "storage/sqlite/commit.go",
			old:  "	if x := work.Rows; x != nil {\n		if err := w.guarded.putRows(",
			new:  "	if x := work.Rows; x != nil && x.Table == \"\" {\n		if err := w.guarded.putRows(",
			by:   "storage/sqlite",
			test: "TestConformance/aliasing",
		},
		{
			name: "a message is handed over although its transaction was undone",
			file: "storage/sqlite/await.go",
			old:  "		if !committed {\n",
			new:  "		if false {\n",
			by:   "storage/sqlite", // in the simulation no commit fails
			test: "TestAwaitFailedCommit",
		},
		{
			name: "an empty hand-over ends the waiting",
			file: "storage/inbox/inbox.go",
			old:  "		if due || len(batch.Deliveries) > 0 || ctx.Err() != nil {\n",
			new:  "		if true {\n",
			by:   "storage/inbox",
			test: "TestHandedOverAndLost",
		},
	}
}
