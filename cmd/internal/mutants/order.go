package main

// orders are breaks of what keeps the order of a key beside other keys, other workers and other lanes.
func orders() []mutant {
	return []mutant{
		{
			name: "a worker keeps what waits behind slow handlers",
			file: "worker/unstarted.go",
			old:  "	if h.idle() || now.Sub(u.last)",
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
			test: "TestLawInTurnAFailedMessageInAnotherWorkersHandIsWaitedFor",
		},
		{
			name: "a worker hands back messages whose order it keeps",
			file: "worker/unstarted.go",
			old:  "	return !inTurn || ",
			new:  "	return true || inTurn && ",
			by:   "worker",
			test: "TestLawInTurnOneWorkerKeepsTheOrderWhenHandlersBecomeSlow",
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
	}
}
