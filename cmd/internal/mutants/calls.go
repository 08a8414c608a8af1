package main

// guardedCalls are breaks of how package guard judges calls, and of what workers take for them.
func guardedCalls() []mutant {
	return []mutant{
		{
			name: "a call whose handler is given up counts as not done",
			file: "guard/guard.go",
			old:  "	m.doubts(g.unsure, 1)\n",
			new:  "",
			by:   "guard",
			test: "TestLaw11AHangRepeatsNoCall",
		},
		{
			name: "each attempt of an agent calls with a key of its own",
			file: "guard/guard.go",
			old:  "	return message{h, h.Key(), cmp.Or(key, h.Key())}",
			new:  "	return message{h, h.Key(), cmp.Or(key, h.Envelope.ID)}",
			by:   "guard",
			test: "TestLaw11AnAgentsKeyIsThatOfItsStep",
		},
		{
			name: "each attempt of an agent is another message to a breaker",
			file: "guard/guard.go",
			old:  "	return message{h, h.Key(), cmp.Or(key, h.Key())}",
			new:  "	return message{h, h.Envelope.ID, cmp.Or(key, h.Key())}",
			by:   "guard",
			test: "TestLaw3AnAgentsAttemptsAreOneMessage",
		},
		{
			name: "a handler whose goroutine ends leaves no doubt",
			file: "handlers/delivery.go",
			old:  "	case !r.returned && d.doubts.Load() > 0:\n		return Poison(ReasonOutcomeUnknown, r.fault)\n",
			new:  "",
			by:   "guard",
			test: "TestLaw11AHangRepeatsNoCall",
		},
		{
			name: "one handler that hangs stops a queue whose guard lets one call through",
			file: "worker/intake.go",
			old:  "max(meant.Concurrency, in.cfg.Concurrency)",
			new:  "meant.Concurrency",
			by:   "guard",
			test: "TestLaw7AHandlerThatHangsStopsNoQueue",
		},
		{
			name: "a guard doesn't know that the settings raise a concurrency",
			file: "guard/turn.go",
			old:  "	if t.others != nil {",
			new:  "	if false {",
			by:   "guard",
			test: "TestLaw10WithSlowCallsAndARaisedConcurrency",
		},
		{
			name: "calls that wait for a permit race for it",
			file: "coord/share/rate.go",
			old:  "	case line <- struct{}{}: // in the order of those that wait\n		defer func() { <-line }()",
			new:  "	case line <- struct{}{}:\n		<-line",
			by:   "coord/share",
			test: "TestWaitersGetTheirsInOrder",
		},
		{
			name: "a probe waits for handlers that take long",
			file: "guard/turn.go",
			old:  "	if before > 0 && !room.Pause {",
			new:  "	if false {",
			by:   "guard",
			test: "TestLaw7LongHandlersKeepNoQueueFromItsProbe",
		},
		{
			name: "probes that decide on their messages never end an outage",
			file: "guard/breaker.go",
			old:  "b.decided >= enoughMine",
			new:  "false",
			by:   "guard",
			test: "TestLaw7ProbesThatDecideThemselves",
		},
		{
			name: "a client's own Timeout hides that nothing was sent",
			file: "guard/guard.go",
			old:  "	err = sent.restored(err)\n",
			new:  "",
			by:   "guard",
			test: "TestLaw11AClientsTimeoutHidesNothing",
		},
	}
}
