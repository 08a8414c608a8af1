package main

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
	}
}
