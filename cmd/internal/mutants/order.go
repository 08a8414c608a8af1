package main

import "slices"

// orders are breaks of what keeps the order of a key beside other keys, other workers and other lanes.
func orders() []mutant { return slices.Concat(otherLanes(), otherKeys(), handBacks()) }

// otherLanes are breaks of the wait for lanes.
func otherLanes() []mutant {
	return []mutant{
		{
			name: "the backlog of a lane uses up patience",
			file: "internal/handling/taketurn.go",
			old:  "	if queue == nil {\n		return true\n",
			new:  "	if queue != nil || queue == nil {\n		return true\n",
			by:   "worker",
			test: "TestLawInOrderABacklogOfALaneIsWaitedFor",
		},
		{
			name: "the backlog of a priority uses up patience",
			file: "internal/handling/taketurn.go",
			old:  "(waited < patience || !t.emptied(ctx, s, w)):",
			new:  "waited < patience:",
			by:   "worker",
			test: "TestLawOneAtATimeABacklogOfALaneIsWaitedFor",
		},
		{
			name: "a message that is moved between lanes is given up",
			file: "coord/keylock/wait.go",
			old:  "	return twice\n",
			new:  "	return twice || true\n",
			by:   "coord/keylock",
			test: "TestLaw8LanesAreEmptiedTwice",
		},
		{
			name: "an old message in a lane holds up a key for ever",
			file: "coord/keylock/wait.go",
			old:  "	if time.Since(since) > lanesMost {",
			new:  "	if time.Since(since) > 100*lanesMost {",
			by:   "coord/keylock",
			test: "TestLaw8LanesAreWaitedForForADay",
		},
	}
}

// otherKeys are breaks of what a process remembers of keys.
func otherKeys() []mutant {
	return []mutant{
		{
			name: "other keys push out a key that waits",
			file: "coord/keylock/memory.go",
			old:  "	if s.waits() && m.waiting.AddIfRoom(key, s, unasked) {",
			new:  "	if len(key) > 1000 && s.waits() && m.waiting.AddIfRoom(key, s, unasked) {",
			by:   "coord/keylock",
			test: "TestLaw8OtherKeysUseUpNoPatience",
		},
		{
			name: "other keys hold up a takeover",
			file: "coord/keylock/memory.go",
			old:  ` || s.Doc.ID != "" || `,
			new:  " || ",
			by:   "coord/keylock",
			test: "TestLaw4OtherKeysHoldUpNoTakeover",
		},
		{
			name: "keys that wait push out each other",
			file: "coord/keylock/memory.go",
			old:  "return time.Since(s.asked) >= unaskedFor }",
			new:  "return !s.asked.IsZero() }",
			by:   "coord/keylock",
			test: "TestLaw8PatienceEndsWhereVeryManyKeysWait",
		},
		{
			name: "keys that nobody asks for keep their places",
			file: "coord/keylock/memory.go",
			old:  "return time.Since(s.asked) >= unaskedFor }",
			new:  "return s.asked.IsZero() }",
			by:   "coord/keylock",
			test: "TestLaw8KeysThatNobodyAsksForAreForgotten",
		},
	}
}

// handBacks are breaks of what a worker hands back because handlers have become slow.
func handBacks() []mutant {
	return []mutant{
		{
			name: "a worker keeps what waits behind slow handlers",
			file: "worker/unstarted.go",
			old:  "	if u.starts.stopped() || now.Sub(u.last)",
			new:  "	if true || now.Sub(u.last)",
			by:   "worker",
			test: "TestLawInOrderAnEventInAnotherWorkersHandIsNoGap",
		},
		{
			name: "a worker keeps the message that others wait for",
			file: "worker/unstarted.go",
			old:  "				awaited[m] = first(m.envelope.ID)\n",
			new:  "				awaited[m] = first == nil\n",
			by:   "worker",
			test: "TestLawOneAtATimeAFailedMessageInAnotherWorkersHandIsWaitedFor",
		},
		{
			name: "a worker hands back messages whose order it keeps",
			file: "worker/unstarted.go",
			old:  "	return !inTurn || ",
			new:  "	return true || inTurn && ",
			by:   "worker",
			test: "TestLawOneAtATimeOneWorkerKeepsTheOrderWhenHandlersBecomeSlow",
		},
		{
			name: "messages that were handed back come back to wait",
			file: "worker/room.go",
			old:  "	r.limit = r.least\n	r.wanted",
			new:  "	r.wanted",
			by:   "worker",
			test: "TestLawSlowHandlersHoldNoMessagesThatAnotherWorkerCouldRun",
		},
		{
			name: "a worker that has handed back messages takes no others",
			file: "worker/room.go",
			old:  "	r.wanted = min(r.wanted, r.enough())\n",
			new:  "",
			by:   "worker",
			test: "TestLawSlowHandlersHoldNoMessagesThatAnotherWorkerCouldRun",
		},
		{
			name: "what a process remembers of a key that another has counts as waiting",
			file: "coord/keylock/turns.go",
			old:  "			s.wait = before\n",
			new:  "			_ = before\n",
			by:   "coord/keylock",
			test: "TestLaw8ATurnThatIsHeldUsesUpNoPatience",
		},
	}
}
