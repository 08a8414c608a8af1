package main

// acted are breaks of what an operator's acts promise.
func acted() []mutant {
	const by = "ops/act"
	return []mutant{
		{
			name: "an act is done though the log has no row of it",
			file: "ops/act/audited.go",
			old:  "	if err != nil {\n		return fmt.Errorf(\"the act can't be noted",
			new:  "	if false {\n		return fmt.Errorf(\"the act can't be noted",
			by:   by, test: "TestLawWithoutTheLogNothingIsDone",
		},
		{
			name: "a purge takes what came after it began",
			file: "ops/internal/unsend/purge.go",
			old:  "most := min(batch, st.Ready-done, p.Waiting-p.deleted)",
			new:  "most := min(batch, batch+st.Ready+p.Waiting)",
			by:   "host/internal/operator", test: "TestLawAPurgeTakesNoLaterMessage",
		},
		{
			name: "a part that doctor can't read hides the other findings",
			file: "ops/doctor/look.go",
			old:  "		x.Findings = append(x.Findings, found...)\n		if !left",
			new:  "		x.Findings = append(x.Findings, found...)\n		if err != nil {\n			x.Findings = nil\n		}\n		if !left",
			by:   "ops", test: "TestLawAPartThatFailsTakesNothingElse",
		},
		{
			name: "what turns the direction of text stays on a page",
			file: "ops/plain.go",
			old:  "	return !unicode.IsPrint(r) || r == utf8.RuneError",
			new:  "	return r == utf8.RuneError",
			by:   "ops", test: "TestLawHostileTextIsHarmless",
		},
		{
			name: "a message that a handler has had is cancelled",
			file: "ops/internal/unsend/cancel.go",
			old:  "found.Deliveries > e.Hops):",
			new:  "found.Deliveries > e.Hops && false):",
			by:   "host/internal/operator", test: "TestMessagesCancel",
		},
	}
}

// asked are breaks of what a request must name, and of how it is answered.
func asked() []mutant {
	const by = "ops/act"
	return []mutant{
		{
			name: "an act is done without what it is about",
			file: "ops/act/request.go",
			old:  "	if len(all) == 0 {\n		return nil\n	}\n	return Usage(",
			new:  "	if true {\n		return nil\n	}\n	return Usage(",
			by:   "ops", test: "TestLawWhatIsMissingIsRefused",
		},
		{
			name: "errors of the pages name flags",
			file: "ops/act/surface.go",
			old:  "		if f == nil || s.inCommand(",
			new:  "		if true || s.inCommand(",
			by:   "ops", test: "TestLawErrorsSpeakTheWordsOfTheirSurface",
		},
		{
			name: "the audit log tells what a program's code has said",
			file: "ops/act/audited.go",
			old:  "		told = errors.New(noted(failed))\n",
			new:  "		told = failed\n",
			by:   by, test: "TestLawTheLogHasNoTextOfCode",
		},
		{
			name: "a repeat answers without the first results",
			file: "ops/act/audited.go",
			old:  "	if known.Answer != \"\" {",
			new:  "	if false {",
			by:   "ops", test: "TestLawARepeatHasTheSameAnswer",
		},
		{
			name: "a page offers what needs a program's code",
			file: "ops/pages.go",
			old:  "login.Of(r).May(a.Role) && a.DoneAt(desk)",
			new:  "login.Of(r).May(a.Role)",
			by:   "ops", test: "TestLawWhatIsOfferedCanBeDone",
		},
		{
			name: "a finding offers an act that its viewer may not do",
			file: "ops/findings.go",
			old:  "a == nil || !from.Who.May(a.Role)",
			new:  "a == nil",
			by:   "ops", test: "TestThePageOfDoctorLeadsToActs",
		},
	}
}

// repeated are breaks of what an act promises that is sent again under its ID, and of what a request names.
func repeated() []mutant {
	return []mutant{
		{
			name: "an act is done again under its ID",
			file: "ops/act/audited.go",
			old:  "	case known.Done():",
			new:  "	case false && known.Done():",
			by:   "ops/act", test: "TestLawAnIDIsDoneOnce",
		},
		{
			name: "an end that nobody knows is noted as a failure",
			file: "ops/act/audited.go",
			old:  "	if c.goesOn || unsure(failed) {",
			new:  "	if c.goesOn {",
			by:   "ops", test: "TestLawAFailureIsAFailureAgain",
		},
		{
			name: "another content under an ID is taken for the same act",
			file: "ops/audit/audit.go",
			old:  "was.Digest != \"\" && was.Digest != e.Digest; {",
			new:  "was.Digest != \"\" && false; {",
			by:   "ops/audit", test: "TestLawOneIDOneAct",
		},
		{
			name: "a name that an act doesn't know is left out",
			file: "ops/ops.go",
			old:  "		if name != actID && name != cameFrom && r.Field(name) == nil {",
			new:  "		if false {",
			by:   "ops", test: "TestLawUnknownNamesAreRefused",
		},
		{
			name: "an act on an instance that is repeated is another message",
			file: "process/operate.go",
			old:  "	if o.under != \"\" {",
			new:  "	if false {",
			by:   "ops", test: "TestLawALostEndIsNoSecondEffect",
		},
	}
}

// bulkActed are breaks of what acts on many messages promise.
func bulkActed() []mutant {
	const by = "ops/internal/bulk"
	return []mutant{
		{
			name: "a bulk act takes what came later",
			file: "ops/internal/bulk/drive.go",
			old:  "	if !d.set[digest(",
			new:  "	if false && !d.set[digest(",
			by:   by, test: "TestLawNoClockDecidesWhatIsChosen",
		},
		{
			name: "the next driver sends the page of a dead one again",
			file: "ops/internal/bulk/drive.go",
			old:  "	if d.channels.Store().Atomic() {",
			new:  "	if false && d.channels.Store().Atomic() {",
			by:   by, test: "TestLawEachChosenMessageOnce",
		},
		{
			name: "a driver writes over the page of another one",
			file: "ops/internal/bulk/drive.go",
			old:  "If: storage.Condition{IfMatch: d.etag}",
			new:  "If: storage.Condition{}",
			by:   by, test: "TestLawTwoDriversSendNothingTwice",
		},
		{
			name: "a driver takes out what was poisoned again",
			file: "ops/internal/bulk/drive.go",
			old:  "err == nil && m.ETag != it.ETag:",
			new:  "false && m.ETag != it.ETag:",
			by:   by, test: "TestLawPoisonedAgainIsNotChosen",
		},
		{
			name: "a driver takes an act from a live one",
			file: "ops/internal/bulk/driver.go",
			old:  "doc.Right != d.right && left > 0 {",
			new:  "doc.Right != d.right && left > d.TTL {",
			by:   by, test: "TestLawALiveDriverKeepsItsAct",
		},
		{
			name: "a bulk act leaves out what could not be read",
			file: "poison/poison.go",
			old:  "if err != nil { // some were read",
			new:  "if false { // some were read",
			by:   by, test: "TestLawALostAnswerIsHarmless",
		},
	}
}

// bulkGoesOn are breaks of how acts on many messages go on.
func bulkGoesOn() []mutant {
	const by = "ops/internal/bulk"
	return []mutant{
		{
			name: "a driver leaves an act that was resumed just now",
			file: "ops/internal/bulk/driver.go",
			old:  "	if x.busy[id] {",
			new:  "	if false {",
			by:   by, test: "TestLawAResumedActGoesOn",
		},
		{
			name: "a page that can't be discarded together is tried again and again",
			file: "ops/internal/bulk/drive.go",
			old:  "d.singles, p.items = len(p.items), nil",
			new:  "d.singles, p.items = len(all), nil",
			by:   by, test: "TestLawAPageThatCannotBeWrittenIsTakenApart",
		},
	}
}
