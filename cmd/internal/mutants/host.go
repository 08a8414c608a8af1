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
		{
			name: "a page reads the port for operators under a name of its own",
			file: "host/origins.go",
			old:  "	if at, err := netip.ParseAddrPort(ln.Addr().String()); err != nil || !at.Addr().Unmap().IsLoopback() {\n",
			new:  "	if _, err := netip.ParseAddrPort(ln.Addr().String()); err == nil {\n",
			by:   "host",
			test: "TestTheAdminPortAnswersToNoForeignName",
		},
		{
			name: "a file in which a statement has found damage is written on",
			file: "storage/sqlite/internal/engine/errors.go",
			old:  "	return e.primary() == sqlite3.SQLITE_CORRUPT || e.primary() == sqlite3.SQLITE_NOTADB\n",
			new:  "	return false\n",
			by:   "storage/sqlite",
			test: "TestADamagedFileAcknowledgesNothing",
		},
		{
			name: "a commit into a log without its beginning is acknowledged",
			file: "storage/sqlite/internal/engine/writer.go",
			old:  "	if err := w.file.checkLog(w.syncer.log, w.c); err != nil {\n",
			new:  "	if err := w.file.check(); err != nil {\n",
			by:   "storage/sqlite",
			test: "TestADamagedFileAcknowledgesNothing",
		},
		{
			name: "a command on the store of other programs brings its schema up",
			file: "storage/sqlite/internal/engine/schema.go",
			old:  "	if x.Keep && version < len(x.Migrations) {\n",
			new:  "	if false && x.Keep {\n",
			by:   "storage/sqlite",
			test: "TestExistingLeavesTheSchema",
		},
	}
}
