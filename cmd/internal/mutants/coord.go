package main

// rights are breaks of the laws of rights that end.
func rights() []mutant {
	return []mutant{
		{
			name: "a timer alone ends a right",
			file: "internal/right/right.go",
			old:  "	if r.late != nil && !r.Proved() {\n		r.late(r)\n	}\n}\n\n// Err",
			new:  "}\n\n// Err",
			by:   "internal/right",
			test: "TestEachLookComparesTheClockWithTheProof",
		},
		{
			name: "a late proof brings a right back",
			file: "internal/right/right.go",
			old:  "	in := time.Now().Before(r.till)\n",
			new:  "	in := true\n",
			by:   "internal/right",
			test: "TestALateProofBringsNoRightBack",
		},
		{
			name: "a lease's context looks at no clock",
			file: "coord/lease/lease.go",
			old:  "Context() context.Context { return l.ctx }",
			new:  "Context() context.Context {\n	ctx, cancel := context.WithCancel(l.ctx)\n	context.AfterFunc(ctx, cancel)\n	return ctx\n}",
			by:   "coord/lease",
			test: "TestAHolderThatLooksBeforeItsTimerSeesTheEnd",
		},
	}
}

// coordination are breaks of the laws of leases, locks and signals.
func coordination() []mutant {
	return []mutant{
		{
			name: "a process that only tries a lease forgets what it saw",
			file: "internal/agree/memory.go",
			old:  "	m.seen.Add(key, s, 1)\n",
			new:  "",
			by:   "coord/lease",
			test: "TestWhereAllOnlyTryADeadHolderIsFollowed",
		},
		{
			name: "a broken lease is freed before its holder has surely ended",
			file: "coord/lease/break.go",
			old:  "	if wait := c.waitBeforeTakeover(); wait > 0 {\n",
			new:  "	if wait := c.waitBeforeTakeover(); wait > time.Hour {\n",
			by:   "coord/lease",
			test: "TestABreakFreesALeaseForThoseWhoTryOnce",
		},
		{
			name: "a process that only tries a quorum forgets what it saw",
			file: "internal/agree/memory.go",
			old:  "	m.seen.Add(key, s, 1)\n",
			new:  "",
			by:   "coord/quorum",
			test: "TestWhereAllOnlyTryADeadHolderIsFollowed",
		},
		{
			name: "a claim leaves documents that aren't there to earlier holders",
			file: "coord/lease/fenced.go",
			old:  "content: there.content}, there.Fence < d.fence\n",
			new:  "content: there.content}, there.etag != \"\" && there.Fence < d.fence\n",
			by:   "coord/lease",
			test: "TestAClaimShutsAnEarlierHolderOutOfWhatIsRead",
		},
		{
			name: "a broadcast says nothing of a process that can't be reached",
			file: "storage/internal/pubsub/publish.go",
			old:  "	return received, errors.Join(failed, unreached)\n",
			new:  "	_ = unreached\n	return received, failed\n",
			by:   "storage/doorbell",
			test: "TestSilentListener",
		},
		{
			name: "a process that stood still probes beside another",
			file: "guard/guard.go",
			old:  "	if shared && g.fleet.StoodStill() {\n",
			new:  "	if false {\n",
			by:   "guard",
			test: "TestLaw2AProcessThatStoodStillDoesNotProbe",
		},
	}
}
