package main

// swapped are the two times on which the shares of package coord/share rest, and the same the other way round.
var swapped = [2]string{
	"inUse(ttl time.Duration) time.Duration   { return ttl * 5 / 6 } // of a share, after the start of its last acknowledged write\nfunc watched(ttl time.Duration) time.Duration { return ttl * 7 / 6 }",
	"inUse(ttl time.Duration) time.Duration   { return ttl * 7 / 6 } // of a share, after the start of its last acknowledged write\nfunc watched(ttl time.Duration) time.Duration { return ttl * 5 / 6 }",
}

// guards are breaks of the laws of package guard, in their order.
func guards() []mutant {
	return []mutant{
		{
			name: "two calls are the probe",
			file: "guard/breaker.go",
			old:  "		b.move(probing)\n",
			new:  "",
			by:   "guard",
			test: "TestLaw1OneProbe",
		},
		{
			name: "an attempt is spent while the breaker is open",
			file: "guard/breaker.go",
			old:  " && (b.state == closed || b.state == ramping)",
			new:  "",
			by:   "guard",
			test: "TestLaw1NoAttemptWhileOpen",
		},
		{
			name: "an attempt is spent although the service does nobody's call",
			file: "guard/messages.go",
			old:  "other.at.After(last)",
			new:  "!last.IsZero()",
			by:   "guard",
			test: "TestLaw1AnAttemptNeedsAServiceThatWorks",
		},
		{
			name: "one message alone opens the breaker",
			file: "guard/window.go",
			old:  "if s.id == id && id != \"\" {",
			new:  "if false {",
			by:   "guard",
			test: "TestLaw3OneMessageAlone",
		},
		{
			name: "a probe that tells nothing keeps its place",
			file: "guard/breaker.go",
			old:  "			b.move(due)\n		}\n	case ramping:",
			new:  "		}\n	case ramping:",
			by:   "guard",
			test: "TestLaw7EveryPlaceEnds",
		},
		{
			name: "a call that began before the breaker opened closes it",
			file: "guard/breaker.go",
			old:  "	if p.epoch != b.epoch {\n",
			new:  "	if false {\n",
			by:   "guard",
			test: "TestACallOfAnEarlierState",
		},
		{
			name: "an unknown outcome is repeated",
			file: "guard/guard.go",
			old:  "	case fault.Kind == Unknown && !g.cfg.Repeatable && g.cfg.Verify == nil:\n",
			new:  "	case false:\n",
			by:   "guard",
			test: "TestVerdictsFollowTheKind",
		},
		{
			name: "a call comes sooner than the service asked for",
			file: "guard/breaker.go",
			old:  "rest = atLeast + ",
			new:  "rest = atLeast - ",
			by:   "guard",
			test: "TestThrottled",
		},
		{
			name: "one process of three opens the breaker for all",
			file: "guard/record.go",
			old:  "len(next.Ill) > len(next.Well) && ",
			new:  "",
			by:   "guard",
			test: "TestLaw4Quorum",
		},
		{
			name: "two processes probe",
			file: "guard/record.go",
			old:  "	if r.Prober != \"\" && r.Prober != id && !dead {\n",
			new:  "	if false {\n",
			by:   "guard",
			test: "TestLaw1TheHistoryOfProbers",
		},
		{
			name: "a share is raised before the write is acknowledged",
			file: "coord/share/member.go",
			old:  "	if p.use < m.use {\n",
			new:  "	if p.use != m.use {\n",
			by:   "coord/share",
			test: "TestLaw1OnlyAnAnswerRaises",
		},
		{
			name: "a share is in use until others may have it",
			file: "coord/share/member.go",
			old:  "return ttl * 5 / 6 }",
			new:  "return ttl * 9 / 6 }",
			by:   "coord/share",
			test: "TestLaw2AShareEndsBeforeOthersHaveIt",
		},
		{
			name: "a share is in use for longer than others watch it",
			file: "coord/share/member.go",
			old:  swapped[0],
			new:  swapped[1],
			by:   "coord/share",
			test: "TestLaw2AShareEndsBeforeOthersHaveIt",
		},
		{
			name: "a row is removed as soon as its share has ended",
			file: "coord/share/member.go",
			old:  "return ttl * 7 / 6 }",
			new:  "return ttl * 5 / 6 }",
			by:   "coord/share",
			test: "TestLaw2ClocksThatDrift",
		},
		{
			name: "a share is lowered after that was written",
			file: "coord/share/member.go",
			old:  "	if p.use < m.use {\n",
			new:  "	if false {\n",
			by:   "coord/share",
			test: "TestLaw1ALowerShareDoesNotWaitForItsWrite",
		},
	}
}
