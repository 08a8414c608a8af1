package main

// onRedis are breaks of the laws of the Redis driver's scripts.
func onRedis() []mutant {
	const scripts = "storage/redis/internal/engine/lua/"
	return []mutant{
		{
			name: "a message on Redis is deleted with any receipt",
			file: scripts + "unit.lua",
			old:  "(owner and string.sub(owner, 1, 8) or NONE) ~= nonce or owner == 'gone'",
			new:  "(letter ~= 'D' and (owner and string.sub(owner, 1, 8) or NONE) ~= nonce) or owner == 'gone'",
			by:   "storage/redis",
			test: "TestConformance/receipts",
		},
		{
			name: "a claim on Redis doesn't end",
			file: scripts + "claim.lua",
			old:  "many('ZADD', q.v, ends)\n",
			new:  "",
			by:   "storage/redis",
			test: "TestConformance/timing",
		},
		{
			name: "a claim on Redis isn't counted",
			file: scripts + "claim.lua",
			old:  "    redis.call('HSET', q.n, ids[n], c + 1)\n",
			new:  "",
			by:   "storage/redis",
			test: "TestConformance/receipts/a_delivery_kills_the_receipt_before_it",
		},
		{
			name: "a unit on Redis does the steps behind a condition that doesn't hold",
			file: scripts + "unit.lua",
			old:  "    if not failed then failed = read1[letter](units, step, at + 1) end\n",
			new:  "    failed = read1[letter](units, step, at + 1)\n",
			by:   "storage/redis",
			test: "TestConformance/commit",
		},
		{
			name: "a write on Redis looks at no ETag",
			file: scripts + "unit.lua",
			old:  "  return etag ~= want and 'P' or nil\n",
			new:  "  return nil\n",
			by:   "proof/simulation",
			test: "TestRandomSchedulesOnRedis",
		},
		{
			name: "a place in the list of Redis stands for a message in flight",
			file: scripts + "line.lua",
			old:  "  return not redis.call('ZSCORE', q.v, id) and not",
			new:  "  return not",
			by:   "storage/redis",
			test: "TestConformance/receipts",
		},
	}
}

// ofRedisRepeats are breaks of the laws by which a call is done once.
func ofRedisRepeats() []mutant {
	const script = "storage/redis/internal/engine/lua/unit.lua"
	return []mutant{
		{
			name: "a repeated call on Redis is done again",
			file: script,
			old:  "  if n == call then\n",
			new:  "  if false then\n",
			by:   "storage/redis",
			test: "TestLawACutCallIsDoneOnce",
		},
		{
			name: "a call on Redis that arrives after its repeat is done",
			file: script,
			old:  "  if n > call then return",
			new:  "  if false then return",
			by:   "storage/redis",
			test: "TestLawACallThatArrivesLateDoesNothing",
		},
	}
}

// ofRedisProcesses are breaks of what the Redis driver believes of processes, servers and time.
func ofRedisProcesses() []mutant {
	return []mutant{
		{
			name: "what a dead process holds on Redis waits for its visibility",
			file: "storage/redis/dead.go",
			old:  "	if len(dead) == 0 || ",
			new:  "	if true || ",
			by:   "storage/redis",
			test: "TestClaimsOfDeadProcesses",
		},
		{
			name: "what may have killed a process comes back at once on Redis",
			file: "storage/redis/internal/engine/lua/release.lua",
			old:  "<= tonumber(ARGV[6]) and",
			new:  "<= 1000 and",
			by:   "storage/redis",
			test: "TestClaimsOfDeadProcesses",
		},
		{
			name: "a store on Redis in virtual time goes by the server's clock",
			file: "storage/redis/internal/engine/clock.go",
			old:  "		return \"0\", \"0\", strconv.FormatInt(time.Now().UnixMicro(), 10)\n",
			new:  "		return \"0\", \"0\", \"\"\n",
			by:   "storage/redis/virtualtest",
			test: "TestTimeIsTheBubbles",
		},
		{
			name: "what others change hides a loss on Redis",
			file: "storage/redis/internal/engine/lua/begin.lua",
			old:  "if count < known then lost",
			new:  "if count < 0 then lost",
			by:   "storage/redis",
			test: "TestEachProcessTellsItsOwnLoss",
		},
		{
			name: "the time of a store on Redis goes back with the server's clock",
			file: "storage/redis/internal/engine/lua/begin.lua",
			old:  "  if now < least then",
			new:  "  if now < 0 then",
			by:   "storage/redis",
			test: "TestTheClockIsSet",
		},
		{
			name: "a Redis server that reads its file counts as one without a file",
			file: "storage/redis/watch.go",
			old:  "	if info[\"loading\"] == \"1\" {",
			new:  "	if info[\"loading\"] == \"2\" {",
			by:   "storage/redis",
			test: "TestAServerThatReadsItsFileIsUnavailable",
		},
	}
}
