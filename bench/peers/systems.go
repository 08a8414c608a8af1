package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/bench/peers/child"
	"github.com/millrace-go/millrace/bench/peers/riverjobs"
	"github.com/millrace-go/millrace/bench/raw"
	"github.com/millrace-go/millrace/bench/servers"
)

// A System is a row of the report.
type System struct {
	Name       string     `json:"name"`
	Title      string     `json:"title"`
	Role       Role       `json:"role"`
	Durability Durability `json:"durability"`
	Settings   string     `json:"settings"`
	Source     string     `json:"source"` // the documentation that recommends the settings
}

// A Role is a system's part in the comparison.
type Role string

// All roles.
const (
	Ours  Role = "ours"
	Peer  Role = "peer"
	Limit Role = "limit" // the cost of such work without a framework
)

// A Durability is what a sent job survives.
type Durability string

// Both durabilities.
const (
	Strict  Durability = "strict"  // a power failure
	Relaxed Durability = "relaxed" // a crash of the process; a power failure may lose the last second
)

type openFunc = func(ctx context.Context, spec child.Spec) (child.Client, error)

// A contender is a system and the way to measure it.
type contender struct {
	System
	works   []child.Work
	modules []string
	open    openFunc
	program string // another program in the same folder measures it
	named   bool   // measured only if it is named
	server  func(ctx context.Context, dir string) (*servers.Server, error)
}

func postgresServer(ctx context.Context, dir string) (*servers.Server, error) {
	return servers.Postgres(ctx, dir, "synchronous_commit=on")
}

func redisServer(appendfsync string) func(context.Context, string) (*servers.Server, error) {
	return func(ctx context.Context, dir string) (*servers.Server, error) {
		return servers.Redis(ctx, dir, "--appendfsync", appendfsync)
	}
}

// queueWorks are all works but the disk's and the server's memory. redisWorks have the memory, too. asynqWorks are
// without the sending of many jobs in a call.
var (
	redisWorks = without(child.Works, child.Sync)
	queueWorks = without(redisWorks, child.Waiting)
	asynqWorks = without(redisWorks, child.Batch)
)

func without(works []child.Work, one child.Work) []child.Work {
	return slices.DeleteFunc(slices.Clone(works), func(w child.Work) bool { return w == one })
}

const everysec, always = "everysec", "always"

// contenders are all systems. Each peer has two entries: with the defaults of its documentation, and tuned for speed
// as its documentation and measurements say. The servers are Debian's with their own defaults, except for the
// settings named here, for PostgreSQL's 300 connections, and for Redis's append-only file instead of snapshots
// (package servers).
func contenders() []contender {
	ours := []string{"github.com/millrace-go/millrace", "modernc.org/sqlite"}
	river := []string{"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5", "github.com/jackc/pgx/v5"}
	asynq := []string{"github.com/hibiken/asynq"}
	backlite := []string{"github.com/mikestefanello/backlite", "github.com/mattn/go-sqlite3"}
	watermill := []string{"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v4", "github.com/jackc/pgx/v5"}
	const (
		ownDocs       = "docs/operating.md"
		redisDocs     = "docs/redis.md"
		riverDocs     = "documentation of river.Config and river.QueueConfig"
		riverExample  = "documentation of package river, first example"
		riverOnSQLite = ", and riversqlite: one connection"
		asynqDocs     = "documentation of asynq.Config and asynq.RedisClientOpt; redis.conf"
		backliteDocs  = "README.md of Backlite, “Client initialization”"
		watermillDocs = "documentation of sql.PostgreSQLQueueSchema and sql.SubscriberConfig"
	)
	onServer := []string{"github.com/millrace-go/millrace", "github.com/redis/rueidis"}
	all := []contender{
		{System: System{"millrace", "Millrace", Ours, Strict, "SQLite, all defaults; a reaction that does nothing", ownDocs}, modules: ours, open: openReact(onSQLite)},
		{System: System{"millrace-cqrs", "Millrace, full path", Ours, Strict,
			"SQLite, all defaults; command → decision on one of 365 value objects → event → view; the view's function counts as the handler", ownDocs}, modules: ours, open: openCQRS(onSQLite)},
		{System: System{"millrace-redis", "Millrace, Redis everysec", Ours, Relaxed,
			"Redis, appendfsync everysec, else all defaults; a reaction that does nothing", redisDocs}, modules: onServer, works: redisWorks, open: openReact(onRedis), server: redisServer(everysec)},
		{System: System{"millrace-redis-cqrs", "Millrace, Redis everysec, full path", Ours, Relaxed,
			"Redis, appendfsync everysec, else all defaults; the full path", redisDocs}, modules: onServer, works: redisWorks, open: openCQRS(onRedis), server: redisServer(everysec)},
		{System: System{"millrace-redis-always", "Millrace, Redis always", Ours, Strict,
			"Redis, appendfsync always, else all defaults; a reaction that does nothing", redisDocs}, modules: onServer, works: redisWorks, open: openReact(onRedis), server: redisServer(always)},
		{System: System{"millrace-redis-always-cqrs", "Millrace, Redis always, full path", Ours, Strict,
			"Redis, appendfsync always, else all defaults; the full path", redisDocs}, modules: onServer, works: redisWorks, open: openCQRS(onRedis), server: redisServer(always)},

		{System: System{"river", "River, PostgreSQL, tuned", Peer, Strict,
			"synchronous_commit=on; MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms, 16 connections", riverDocs}, modules: river, open: openRiver(riverjobs.Tuned(2000), 16), server: postgresServer},
		{System: System{"river-defaults", "River, PostgreSQL, defaults", Peer, Strict,
			"synchronous_commit=on; MaxWorkers 100", riverExample}, modules: river, open: openRiver(riverjobs.Defaults(), 0), server: postgresServer},
		{System: System{"river-sqlite", "River, SQLite, tuned", Peer, Strict,
			"WAL, synchronous FULL, one connection; MaxWorkers 500, FetchCooldown 2 ms, FetchPollInterval 20 ms", riverDocs + riverOnSQLite}, program: "riversqlite"},
		{System: System{"river-sqlite-defaults", "River, SQLite, defaults", Peer, Strict,
			"WAL, synchronous FULL, one connection; MaxWorkers 100", riverExample + riverOnSQLite}, program: "riversqlite"},

		{System: System{"asynq", "Asynq, everysec, tuned", Peer, Relaxed,
			"Redis, appendfsync everysec; Concurrency 64, TaskCheckInterval 1 ms, PoolSize 64", asynqDocs}, modules: asynq, works: asynqWorks, open: openAsynq(true), server: redisServer(everysec)},
		{System: System{"asynq-always", "Asynq, always, tuned", Peer, Strict,
			"Redis, appendfsync always; Concurrency 64, TaskCheckInterval 1 ms, PoolSize 64", asynqDocs}, modules: asynq, works: asynqWorks, open: openAsynq(true), server: redisServer(always)},
		{System: System{"asynq-defaults", "Asynq, everysec, defaults", Peer, Relaxed,
			"Redis, appendfsync everysec; all defaults", asynqDocs}, modules: asynq, works: asynqWorks, open: openAsynq(false), server: redisServer(everysec)},
		{System: System{"asynq-always-defaults", "Asynq, always, defaults", Peer, Strict,
			"Redis, appendfsync always; all defaults", asynqDocs}, modules: asynq, works: asynqWorks, open: openAsynq(false), server: redisServer(always)},

		{System: System{"backlite", "Backlite, tuned", Peer, Strict,
			"WAL, synchronous FULL, one connection, immediate transactions; NumWorkers 1000 (latency, idle: 10)", backliteDocs + "; documentation of go-sqlite3"}, modules: backlite,
			open: openBacklite(1000, 1, "_journal=WAL&_timeout=10000&_txlock=immediate&_sync=FULL")},
		{System: System{"backlite-readme", "Backlite, README", Peer, Strict,
			"WAL, timeout 5 s, NumWorkers 10, as in its README, and synchronous FULL", backliteDocs}, modules: backlite,
			open: openBacklite(10, 0, "_journal=WAL&_timeout=5000&_sync=FULL")},

		{System: System{"watermill", "Watermill, PostgreSQL, tuned", Peer, Strict,
			"synchronous_commit=on; queue schema, DeleteOnAck, 4 subscribers, SubscribeBatchSize 1000 (send and handle: 1 and 100), PollInterval 10 ms, 32 connections; no lease for each job", watermillDocs}, modules: watermill,
			open: openWatermillTuned, server: postgresServer},
		{System: System{"watermill-defaults", "Watermill, PostgreSQL, defaults", Peer, Strict,
			"synchronous_commit=on; queue schema, DeleteOnAck, one subscriber", watermillDocs}, modules: watermill, open: openWatermill(1, 0, 0, 0), server: postgresServer},

		{System: System{"raw", "raw SQLite", Limit, Strict, "database/sql; Millrace's tables and statements, 512 messages at a time, one goroutine that commits in groups, and nothing else", "bench/raw"}, modules: ours, open: openQueue(raw.Open)},
		{System: System{"prototype", "raw SQLite, prototype", Limit, Strict, "likewise, with one table and the statements that come to mind first, 128 messages at a time", "bench/raw"}, modules: ours, open: openQueue(raw.OpenPrototype)},
		{System: System{"redis-driver", "Millrace's driver alone, Redis everysec", Limit, Relaxed, "Redis, appendfsync everysec; one goroutine that receives up to 512 messages and deletes them, nothing else", redisDocs}, modules: onServer, works: redisWorks, open: openDriver, server: redisServer(everysec)},
		{System: System{"redis-driver-always", "Millrace's driver alone, Redis always", Limit, Strict, "likewise, appendfsync always", redisDocs}, modules: onServer, works: redisWorks, open: openDriver, server: redisServer(always)},
		{System: System{"disk", "raw disk", Limit, Strict, "4 KiB overwritten and synced, one after another", "bench/raw"}, works: []child.Work{child.Sync}, open: openDisk},
	}
	for _, subscribers := range []int{1, 2, 4, 8} { // includes the two entries above
		for _, batch := range []int{100, 500, 1000} {
			settings := fmt.Sprintf("%d subscribers, SubscribeBatchSize %d", subscribers, batch)
			all = append(all, contender{System: System{fmt.Sprintf("watermill-%dx%d", subscribers, batch), "Watermill, " + settings, Peer, Strict,
				"as Watermill, PostgreSQL, with " + settings, watermillDocs}, modules: watermill, named: true,
				open: openWatermill(subscribers, batch, 10*time.Millisecond, 32), server: postgresServer})
		}
	}
	for i := range all {
		if all[i].works == nil {
			all[i].works = queueWorks
		}
	}
	return all
}

// children are the systems that this program itself measures.
func children() []child.System {
	var all []child.System
	for _, c := range contenders() {
		if c.open != nil {
			all = append(all, child.System{Name: c.Name, Modules: c.modules, Open: c.open})
		}
	}
	return all
}

// pick returns the named systems, or all except those that must be named.
func pick(names []string) ([]contender, error) {
	all := contenders()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c contender) bool { return c.Name == name }) {
			return nil, fmt.Errorf("no system %q: -list tells which there are", name)
		}
	}
	return slices.DeleteFunc(all, func(c contender) bool {
		return len(names) == 0 && c.named || len(names) > 0 && !slices.Contains(names, c.Name)
	}), nil
}
