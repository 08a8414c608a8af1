package main

// laned are breaks of what lanes promise.
func laned() []mutant {
	const by = "storage/lanes"
	return []mutant{
		{
			name: "the sideline is never served while others wait",
			file: "storage/lanes/turn.go",
			old:  "c.weight = max(1, others) / sidelineOthers",
			new:  "c.weight = 1e-9",
			by:   by, test: "TestTheSidelineIsServed",
		},
		{
			name: "the sideline is served like any lane",
			file: "storage/lanes/turn.go",
			old:  "c.weight = max(1, others) / sidelineOthers",
			new:  "c.weight = max(1, others)",
			by:   by, test: "TestTheSidelineIsServed",
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
			old:  "q.crowd.count(k, r.began) && backlog &&",
			new:  "q.crowd.count(k, r.began) && (backlog || true) &&",
			by:   by, test: "TestWithoutABacklogNobodyIsNoisy",
		},
		{
			name: "a tenant is noisy for ever",
			file: "storage/lanes/crowd.go",
			old:  "	return n != nil && time.Since(n.changed) < quietFor\n",
			new:  "	return n != nil\n",
			by:   by, test: "TestAQuietMinuteEndsTheNoise",
		},
		{
			name: "a message is deleted from its lane before it is in the sideline",
			file: "storage/lanes/move.go",
			old:  "	_, _ = q.inner.Commit(ctx, w)\n",
			new:  "	if _, err := q.inner.Commit(ctx, storage.Work{Delete: w.Delete}); err == nil {\n		_, _ = q.inner.Commit(ctx, storage.Work{Send: w.Send})\n	}\n",
			by:   by, test: "TestNothingIsLostOverMovesAndCrashes",
		},
	}
}

// lanedTurns are more of them.
func lanedTurns() []mutant {
	const by = "storage/lanes"
	return []mutant{
		{
			name: "priorities are strict",
			file: "storage/lanes/lanes.go",
			old:  "	case Low:\n		return 1\n",
			new:  "	case Low:\n		return 1e-9\n",
			by:   by, test: "TestLowKeepsAFloor",
		},
		{
			name: "lanes that nothing is sent into any more are forgotten",
			file: "storage/lanes/receive.go",
			old:  "		if l.hot && !asked[l] && !(l.sweeping && l.moving) {\n",
			new:  "		if l.hot && q.current(l) && !asked[l] && !(l.sweeping && l.moving) {\n",
			by:   by, test: "TestLaneChangesDrain",
		},
		{
			name: "an idle queue is looked at in all its lanes, where that is billed",
			file: "storage/lanes/receive.go",
			old:  "	case !busy && !q.props.Billed:\n",
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
	}
}
