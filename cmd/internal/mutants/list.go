package main

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
			old:  "	d.record.add(x)\n",
			new:  "",
		},
		{
			name: "an event has a random ID",
			file: "internal/post/compose.go",
			old:  "		e.derive(parent, born, \"event\", source, strconv.Itoa(n))\n",
			new:  "		e.ID = NewID()\n",
			by:   "values", // repeats come from the document, so only two workers that decide the same event make two of it
			test: "TestLargePending",
		},
		{
			name: "an event that is sent again has a random ID",
			file: "values/pending.go",
			old:  "		*to = append(*to, e)\n",
			new:  "		e.ID = channel.NewID()\n		*to = append(*to, e)\n",
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
			old:  "				u.resend = append(u.resend, p)\n",
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
			old:  "			return ErrTooOld\n",
			new:  "",
			by:   "values", // a run of the simulation is shorter than the 30 days
			test: "TestClockBehindRetention",
		},
		{
			name: "an outdated document is believed about a replay that a row tells of",
			file: "values/apply.go",
			old:  "		u.byRow = u.byRow || replay\n",
			new:  "",
			by:   "values", // it takes a late worker, a dead one and a third between two reads
			test: "TestReplayByARowIsProved",
		},
		{
			name: "another content under the same ID is taken for a replay",
			file: "values/apply.go",
			old:  "	case replay && !same:\n",
			new:  "	case replay && !same && x.time < 0:\n",
		},
		{
			name: "a view, which emits nothing, has no record",
			file: "values/apply.go",
			old:  "	d.record.add(x)\n",
			new:  "	if len(events) > 0 {\n		d.record.add(x)\n	}\n",
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
			old:  "	case handlers.UnknownKind:\n",
			new:  "	case handlers.UnknownKind:\n		s.deletes.add(m)\n		return\n",
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
			file: "worker/message.go",
			old:  "		m.cancel(ErrOwnershipLost)\n",
			new:  "		_ = ErrOwnershipLost\n",
			by:   "worker", // the effects stay right, which is all that the auditor looks at
			test: "TestLostIsNotRenewed",
		},
		{
			name: "a message is renewed when it may be in other hands",
			file: "worker/message.go",
			old: "	if m.settling || m.lost || time.Since(m.owned) < due {\n		return false, nil\n	}\n	began := time.Now()\n" +
				"	// The timeout is so short that a store that hangs leaves time for another try.\n" +
				"	ctx, cancel := context.WithTimeout(ctx, min(limit-began.Sub(m.owned), visibility/6))\n",
			new: "	if m.settling || time.Since(m.owned) < due {\n		return false, nil\n	}\n	began := time.Now()\n" +
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
			file: "poison/poison.go",
			old:  `		e.DataRef, e.Attempts,`,
			new:  "		e.ID = channel.NewID()\n		e.DataRef, e.Attempts,",
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
			file: "internal/post/compose.go",
			old:  "		e.ID = DerivedID(parent.ID, \"poison\", queue, string(content[:]), strconv.Itoa(n))\n",
			new:  "		e.ID = NewID() + string(content[:0])\n",
			by:   "worker",
			test: "TestOnPoisonAgain",
		},
		{
			name: "a handler runs although its message is given up",
			file: "worker/open.go",
			old:  "	return m.silentDeliveries > 0 && !o.store.Atomic() && o.registry.Compensates(m.envelope.Kind)\n",
			new:  "	return false\n",
			by:   "worker",
			test: "TestGivingUpWithEveryFault",
		},
		{
			name: "attempts count from zero",
			file: "handlers/giveup.go",
			old:  "	return h.Envelope.Attempts + 1, ",
			new:  "	return h.Envelope.Attempts, ",
			by:   "handlers",
			test: "TestAttempt",
		},
		{
			name: "an effect is noted before it has happened",
			file: "handlers/once.go",
			old:  "	err := n.put(ctx, onceMark{Holder: n.holder, Beat: n.beat}, cond)",
			new:  "	err := n.put(ctx, onceMark{Holder: n.holder, Beat: n.beat, Done: true}, cond)",
		},
		{
			name: "what a reaction sends has a new ID each time",
			file: "internal/post/compose.go",
			old:  "		e.derive(parent, born, \"sent by\", h.Queue, content, strconv.Itoa(h.CountSent(content)))\n",
			new:  "		e.ID = NewID() + strconv.Itoa(h.CountSent(content))[:0]\n",
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
		// Each of these is the promise of one part, and a test of that part shows the break at once.
		{
			name: "a ring is forgotten when nothing can be received at that moment",
			file: "storage/inbox/inbox.go",
			old:  "		in.next = time.Time{}\n",
			new:  "",
			by:   "storage/inbox",
			test: "TestRingStaysDue",
		},
		{
			name: "of several turns all must pause a queue",
			file: "worker/board.go",
			old:  "slices.ContainsFunc(b.given, func(l Limits) bool { return l.Pause })",
			new:  "!slices.ContainsFunc(b.given, func(l Limits) bool { return !l.Pause })",
			by:   "worker",
			test: "TestTurnsTogether",
		},
		{
			name: "a turn that fails sets no limits",
			file: "worker/board.go",
			old:  "			failing = true\n",
			new:  "			failing = true\n			b.set(i, Limits{})\n",
			by:   "worker",
			test: "TestTurnThatMisbehaves",
		},
		{
			name: "a member is active before it has looked",
			file: "coord/members/members.go",
			old:  "		ended: make(chan struct{}), changed: make(chan struct{}),\n",
			new:  "		ended: make(chan struct{}), changed: make(chan struct{}), active: true,\n",
			by:   "coord/members",
			test: "TestNotActiveUnseen",
		},
		{
			name: "a lease that another process has taken over is renewed",
			file: "coord/lease/lease.go",
			old:  "storage.Condition{IfMatch: l.etag}",
			new:  "storage.Condition{}",
			by:   "coord/lease",
			test: "TestSomebodyElseHasIt",
		},
		{
			name: "a delivery that another worker has counts as deleted",
			file: "worker/settle.go",
			old:  "			ended[i] = handlers.Stale\n",
			new:  "			ended[i] = handlers.Deleted\n",
			by:   "worker",
			test: "TestLateWorkerLeavesTheBody",
		},
		{
			name: "messages are not renewed after a commit that failed",
			file: "worker/settle.go",
			old:  "			ms[i].resumeRenewal()\n",
			new:  "			_ = ms[i]\n",
			by:   "worker",
			test: "TestRenewalAfterALostRace",
		},
		{
			name: "a part of a fold ends the deliveries of others",
			file: "values/outcome.go",
			old:  "			all[i] = at[end]\n",
			new:  "			all[i] = end\n",
			by:   "handlers",
			test: "TestAFoldInPartsEndsTheRightDeliveries",
		},
		{
			name: "the result of a call that was given up is used",
			file: "handlers/guard.go",
			old:  "	if !r.call.CompareAndSwap(call, call+1) {\n",
			new:  "	if r.call.Store(call + 1); false {\n",
			by:   "worker",
			test: "TestHangingDecision",
		},
		{
			name: "a message that another worker has goes to the poison queue",
			file: "poison/poison.go",
			old:  "	claim, err := prove(ctx)\n	if err != nil {\n",
			new:  "	claim, err := prove(ctx)\n	if err != nil && !errors.Is(err, storage.ErrReceiptStale) {\n",
			by:   "poison",
			test: "TestPutOfALostMessage",
		},
		{
			name: "the claims of a process that lives are released",
			file: "storage/sqlite/internal/peers/presence.go",
			old:  "		if lock(f) && isFileAt(name, f) {\n",
			new:  "		if isFileAt(name, f) {\n",
			by:   "storage/sqlite/internal/peers",
			test: "TestReleaseClaimsOfDead",
		},
		{
			name: "calls are answered before their commit",
			file: "storage/sqlite/internal/engine/writer.go",
			old:  "	err := w.transact(group)\n",
			new:  "	var err error\n	defer w.transact(group)\n",
			by:   "storage/sqlite/internal/engine",
			test: "TestGroupIsOneTransaction",
		},
		{
			name: "a message that isn't due is handled",
			file: "worker/open.go",
			old:  "	if m.envelope.Early(m.received) > 0 {\n",
			new:  "	if m.envelope.Early(m.received) < 0 {\n",
			by:   "worker",
			test: "TestEightDaysAndTheYear9999",
		},
		{
			name: "a delivery before the due time counts as silent",
			file: "worker/due.go",
			old:  "	e.Hops = m.deliveries - e.Attempts - e.HandBacks\n",
			new:  "",
			by:   "worker",
			test: "TestNoDeliveryCountsBeforeTheDueTime",
		},
		{
			name: "a worker doesn't look for a tombstone",
			file: "worker/bodies.go",
			old:  "	if h.settler.cancelled(ctx, m) {\n		return\n	}\n",
			new:  "",
			by:   "worker",
			test: "TestCancelledMessageIsNotHandled",
		},
		{
			name: "a message in flight can be cancelled",
			file: "storage/sqlite/find.go",
			old:  " AND due.visible = hidden AND due.id = messages.id AND NOT held\n",
			new:  " AND due.id = messages.id\n",
			by:   "storage/sqlite",
			test: "TestConformance/find/a_message_in_flight_has_no_receipt",
		},
		{
			name: "a message that a handler has had is cancelled",
			file: "internal/post/cancel.go",
			old:  "		case d.Receipt == \"\" || !early && d.Deliveries > e.Hops:\n",
			new:  "		case d.Receipt == \"\":\n",
			by:   "worker",
			test: "TestCancelTooLate",
		},
		{
			name: "a tombstone takes a message that was sent after the cancellation",
			file: "internal/post/cancel.go",
			old:  "	if e.Time.After(t.At) || ",
			new:  "	if ",
			by:   "worker",
			test: "TestSameIDAfterCancel",
		},
	}
}
