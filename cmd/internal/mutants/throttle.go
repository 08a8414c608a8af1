package main

// deferrals are breaks of what a rate limiter defers by its backlog.
func deferrals() []mutant {
	return []mutant{
		{
			name: "a queue may wait at the level that it raises itself",
			file: "host/level.go",
			old:  "		if from > 0 && from <= level {\n",
			new:  "		if from > 0 && from < level {\n",
			by:   "host",
			test: "TestABoundOfAQueueThatWaitsAtItsLevelIsRefused",
		},
		{
			name: "requests that count for nothing put others off",
			file: "throttle/backlog.go",
			old:  "		p.later.giveBack(ahead)\n",
			new:  "",
			by:   "throttle",
			test: "TestLawOnlyWhatIsAcceptedPutsOthersOff",
		},
		{
			name: "a repeat gets ahead of what a backlog defers",
			file: "throttle/limiter.go",
			old:  "		p.claim.late = max(p.claim.late, d.memory.pressure.later.follow(now))\n",
			new:  "",
			by:   "throttle",
			test: "TestLawARepeatIsNotDueBeforeWhatABacklogDefers",
		},
		{
			name: "what is deferred counts as served",
			file: "throttle/backlog.go",
			old:  "	case late > 0:\n",
			new:  "	case late < 0:\n",
			by:   "throttle",
			test: "TestLawWhatABacklogDefersIsServedInTime",
		},
		{
			name: "all that is deferred is due together",
			file: "throttle/later.go",
			old:  "	l.clear.Store(clear + ahead)\n",
			new:  "	l.clear.Store(clear)\n",
			by:   "throttle",
			test: "TestLawWhatABacklogDefersIsServedInTime",
		},
		{
			name: "what is deferred doesn't count for the limit of messages",
			file: "throttle/backlog.go",
			old:  "all := x.before + x.deferred;",
			new:  "all := x.before;",
			by:   "throttle",
			test: "TestLawHardCountsWhatIsDeferred",
		},
		{
			name: "what a store can't tell from ready messages counts twice",
			file: "throttle/backlog.go",
			old:  "		next.ready -= deferred\n",
			new:  "",
			by:   "throttle",
			test: "TestLawWhatABacklogDefersIsServedInTime",
		},
	}
}

// bodies are breaks of what bodies of requests cost.
func bodies() []mutant {
	return []mutant{
		{
			name: "a body that is announced and not sent costs its tenant all of it",
			file: "throttle/serve.go",
			old:  "			defer m.end() // before the pass ends\n",
			new:  "",
			by:   "throttle",
			test: "TestLawABodyThatIsNotSentCostsNothing",
		},
		{
			name: "what has come back by itself is given back again",
			file: "throttle/claim.go",
			old:  "by := min(max(c.own[i]-c.plan.rules[i].cost(came), 0), s.unpaid(c, i, now))",
			new:  "by := min(max(c.own[i]-c.plan.rules[i].cost(came), 0), now+forever)",
			by:   "throttle",
			test: "TestLawWhatIsNotSentGivesNoMore",
		},
		{
			name: "what has been given back to others overflows",
			file: "throttle/table.go",
			old:  "hi > 0 || lo > forever",
			new:  "hi > 0 && lo > forever",
			by:   "throttle",
			test: "TestLawNoRefundIsTooLarge",
		},
	}
}
