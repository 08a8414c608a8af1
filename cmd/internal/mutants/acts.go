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
			name: "an act is done again under its ID",
			file: "ops/act/audited.go",
			old:  "	if known.Done() {",
			new:  "	if false && known.Done() {",
			by:   by, test: "TestLawAnIDIsDoneOnce",
		},
		{
			name: "a purge takes what came after it began",
			file: "ops/internal/unsend/purge.go",
			old:  "done < st.Ready; {",
			new:  "done >= 0; {",
			by:   "host/internal/operator", test: "TestLawAPurgeTakesNoLaterMessage",
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
