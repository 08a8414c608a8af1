package main

// entered are breaks of what the door of the operators' pages promises.
func entered() []mutant {
	const by = "ops/internal/login"
	return []mutant{
		{
			name: "a right token is kept out where wrong ones were tried",
			file: "ops/internal/login/login.go",
			old:  "		if !ok && err == nil && !d.failed(r) {",
			new:  "		if err == nil && !d.failed(r) {",
			by:   by, test: "TestLawAttemptsAreLimited",
		},
		{
			name: "failures are answered and logged without end",
			file: "ops/internal/login/tries.go",
			old:  "	if n > mostTries-1 {",
			new:  "	if n < 0 {",
			by:   by, test: "TestLawAttemptsAreLimited",
		},
		{
			name: "a token comes in clear beside the proxy",
			file: "ops/internal/login/login.go",
			old:  "	case !known && len(d.cfg.Proxies) > 0 &&",
			new:  "	case known && len(d.cfg.Proxies) > 0 &&",
			by:   by, test: "TestLawNoTokenComesInClear",
		},
		{
			name: "a proxy that isn't listed forwards requests",
			file: "ops/internal/login/login.go",
			old:  "	case !known && slices.ContainsFunc(forwarded,",
			new:  "	case !known && len(d.cfg.Proxies) == 0 && slices.ContainsFunc(forwarded,",
			by:   by, test: "TestLawLoopbackIsNoLogin",
		},
		{
			name: "a client adds a name to that of the proxy",
			file: "ops/internal/login/login.go",
			old:  "len(r.Header.Values(d.cfg.Header)) > 1:",
			new:  "len(r.Header.Values(d.cfg.Header)) > 2:",
			by:   by, test: "TestLawLoopbackIsNoLogin",
		},
		{
			name: "doors of one host take one another's cookies away",
			file: "ops/internal/login/cookie.go",
			old:  "		door += \" \" + port",
			new:  "		_ = port",
			by:   by, test: "TestLawDoorsOfOneHostDontCollide",
		},
	}
}

// cameIn are breaks of what a login and a log-out lead to, and of what a page shows then.
func cameIn() []mutant {
	const by = "ops/internal/login"
	return []mutant{
		{
			name: "a login leads out of the door by escaped dots",
			file: "ops/internal/login/way.go",
			old:  "name == \".\" || name == \"..\"",
			new:  "part == \".\" || part == \"..\"",
			by:   by, test: "TestLawALoginLeadsNowhereElse",
		},
		{
			name: "a copy of a cookie holds after a log-out",
			file: "ops/internal/login/enter.go",
			old:  "		d.signer.end(t, time.Now())",
			new:  "		_ = t",
			by:   by, test: "TestLawALogoutEndsTheCookie",
		},
		{
			name: "a page has characters that nobody sees",
			file: "ops/ops.go",
			old:  "[]byte(plain(b.String()))",
			new:  "[]byte(b.String())",
			by:   "ops", test: "TestLawHiddenCharactersAreShown",
		},
	}
}
