package main

// guardsOfPrograms are breaks of what protects a program from foreign requests and files.
func guardsOfPrograms() []mutant {
	return []mutant{
		{
			name: "a page of another origin makes a browser send commands",
			file: "host/origins.go",
			old:  "	return guard.Handler(web), nil\n",
			new:  "	return web, nil\n",
			by:   "host",
			test: "TestAPageOfAnotherOriginSendsNothing",
		},
		{
			name: "a command is taken from text that is declared as no JSON",
			file: "host/accept.go",
			old:  "		if !isJSON(r.Header.Get(\"Content-Type\")) {\n",
			new:  "		if false && !isJSON(r.Header.Get(\"Content-Type\")) {\n",
			by:   "host",
			test: "TestOnlyJSONAndOnlyByAMethodThatSends",
		},
	}
}
