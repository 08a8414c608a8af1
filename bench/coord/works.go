package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A work is a table of the report.
type work struct {
	name, title string
	metrics     []metric
	measures    map[string]measure // by system
}

// A metric is a number of a sample.
type metric struct {
	name, unit string
	high       bool // more is better
}

// A measure makes one measurement, and returns the values of the work's metrics, in their order.
type measure func(ctx context.Context, r *round) ([]float64, error)

// A System is a row of a table.
type System struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Durability string   `json:"durability"`
	Settings   string   `json:"settings"`
	Modules    []string `json:"-"`
}

// The durability of a call that was answered.
const (
	strict  = "strict"  // all, also a power failure
	relaxed = "relaxed" // a power failure may lose the last second
	none    = "none"    // nothing survives the server, or was ever stored
)

// The systems that the program treats apart.
const (
	ours    = "millrace"
	normal  = "millrace-normal"
	azurite = "millrace-azurite"

	onRedis       = "millrace-redis"
	onRedisAlways = "millrace-redis-always"
)

// The settings of Redis's appendfsync.
const everysec, always = "everysec", "always"

const (
	oursModule    = "github.com/millrace-go/millrace"
	sqliteModule  = "modernc.org/sqlite"
	redsyncModule = "github.com/go-redsync/redsync/v4"
	rueidisModule = "github.com/redis/rueidis"
	redisModule   = "github.com/redis/go-redis/v9"
	pgxModule     = "github.com/jackc/pgx/v5"
	etcdModule    = "go.etcd.io/etcd/client/v3"
)

func systems() []System {
	return []System{
		{ours, "Millrace", strict, "SQLite, all defaults (sync=full); the quorum: three files", []string{oursModule, sqliteModule}},
		{normal, "Millrace, sync=normal", relaxed, "SQLite, sync=normal", []string{oursModule, sqliteModule}},
		{azurite, "Millrace, Azurite", strict, "Azurite in memory, through a doorbell on 127.0.0.1", []string{oursModule}},
		{onRedis, "Millrace, Redis everysec", relaxed, "Redis, appendonly, appendfsync everysec; the quorum: three servers", []string{oursModule, rueidisModule}},
		{onRedisAlways, "Millrace, Redis always", strict, "likewise, appendfsync always", []string{oursModule, rueidisModule}},
		{"memory", "mutex in memory", none, "sync.Mutex and an int64", nil},
		{"postgres", "PostgreSQL", strict, "synchronous_commit=on; SELECT nextval(…), a connection for each goroutine", []string{pgxModule}},
		{"postgres-cache", "PostgreSQL, CACHE 1000", strict, "likewise, CREATE SEQUENCE … CACHE 1000", []string{pgxModule}},
		{"postgres-lock", "PostgreSQL, advisory lock", none, "SELECT pg_advisory_lock(…), one connection", []string{pgxModule}},
		{"redis", "Redis, everysec", relaxed, "appendonly, appendfsync everysec; INCR", []string{redisModule}},
		{"redis-always", "Redis, always", strict, "appendonly, appendfsync always; INCR", []string{redisModule}},
		{"redis-pubsub", "Redis, PUBLISH", none, "PUBLISH and SUBSCRIBE", []string{redisModule}},
		{"etcd", "etcd", strict, "one server, all defaults; concurrency.Mutex and concurrency.Election on a session", []string{etcdModule}},
		{"redsync", "redsync, everysec", relaxed, "Redis, appendonly, appendfsync everysec; defaults, but tries without end; the quorum: three servers", []string{redsyncModule, redisModule}},
		{"redsync-always", "redsync, always", strict, "likewise, appendfsync always", []string{redsyncModule, redisModule}},
	}
}

func works() []work {
	rate := []metric{{"rate", "/s", true}, {"a number", "ns", false}}
	sources := map[string]source{
		ours: millraceNumbers, "memory": memoryNumbers, "postgres": postgresNumbers(""), "postgres-cache": postgresNumbers(" CACHE 1000"),
		"redis": redisNumbers(everysec), "redis-always": redisNumbers(always),
	}
	one, two := map[string]measure{}, map[string]measure{}
	for name, s := range sources {
		one[name], two[name] = numbers(s, 1), numbers(s, 2)
	}
	locks := []metric{{"acquired and released", "/s", true}, {"p50 of both", "ms", false}, {"p99 of both", "ms", false},
		{"CPU of client and servers", "µs", false}, {"of it the servers, µs", "", false}}
	singles := map[string]spec{
		ours: {Kind: "lease"}, normal: {Kind: "lease", Settings: "?sync=normal"}, onRedis: {Kind: "lease", Server: "redis", Settings: everysec},
		onRedisAlways: {Kind: "lease", Server: "redis", Settings: always}, "postgres-lock": {Kind: "advisory"},
		"etcd": {Kind: "etcd"}, "redsync": {Kind: "redsync", Settings: everysec}, "redsync-always": {Kind: "redsync", Settings: always},
	}
	lone, contended := map[string]measure{}, map[string]measure{}
	for name, s := range singles {
		lone[name], contended[name] = uncontended(s, 1), wanted(s)
	}
	quorums := map[string]measure{
		ours: uncontended(spec{Kind: "quorum"}, 3), onRedis: uncontended(spec{Kind: "quorum", Server: "redis", Settings: everysec}, 3),
		onRedisAlways: uncontended(spec{Kind: "quorum", Server: "redis", Settings: always}, 3), normal: uncontended(spec{Kind: "quorum", Settings: "?sync=normal"}, 3), "redsync": uncontended(spec{Kind: "redsync", Settings: everysec}, 3),
		"redsync-always": uncontended(spec{Kind: "redsync", Settings: always}, 3),
	}
	leads := map[string]spec{ours: {Kind: "leader"}, "etcd": {Kind: "election"}}
	stops, kills := map[string]measure{}, map[string]measure{}
	for name, s := range leads {
		stops[name], kills[name] = handOver(s), takeOver(s)
	}
	return []work{
		{"numbers", "Numbers, one goroutine", append(slices.Clip(rate), metric{"p99.9 at no more than a million a second", "µs", false}), one},
		{"numbers2", "Numbers, two goroutines", rate, two},
		{"lease", "Lease, one process wants it", locks, lone},
		{"contended", "Lease, four processes want it, each 2 ms after it had it", []metric{{"hand-overs", "/s", true}, {"acquired", "/s", true}, {"p50 of waits", "ms", false}, {"longest wait", "ms", false}}, contended},
		{"quorum", "Quorum of three, one process wants it", locks, quorums},
		{"handover", "Leader, stopped in order, TTL 3 s", []metric{{"p50", "ms", false}, {"longest", "ms", false}}, stops},
		{"takeover", "Leader, killed, TTL 3 s", []metric{{"p50", "s", false}, {"longest", "s", false}}, kills},
		{"gate", "Gate, eight processes wait, from the call of Open", []metric{{"each, p50", "ms", false}, {"last of eight, p50", "ms", false}, {"last of eight, p99", "ms", false},
			{"from first to last, p50", "ms", false}, {"last after Open returned, p50", "ms", false}, {"openings", "", true}},
			map[string]measure{ours: gates(openFile), azurite: gates(openAzurite)}},
		{"signal", "Signal to eight processes, from the call of Broadcast", []metric{{"each, p50", "ms", false}, {"last of eight, p50", "ms", false}, {"last of eight, p99", "ms", false}, {"broadcasts", "", true}, {"not heard", "", false}},
			map[string]measure{ours: signals(openFile), azurite: signals(openAzurite), "redis-pubsub": redisSignals}},
		{"requests", "Requests on Azurite, with a doorbell", []metric{{"operations", "", true}}, map[string]measure{azurite: nil}},
	}
}

// choose picks works and systems by their names; without names, all.
func (p *plan) choose(names, only []string) error {
	all := works()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(w work) bool { return w.name == name }) {
			return fmt.Errorf("no work %q: -list tells which there are", name)
		}
	}
	p.works = slices.DeleteFunc(all, func(w work) bool { return len(names) > 0 && !slices.Contains(names, w.name) })
	for _, name := range only {
		if !slices.ContainsFunc(systems(), func(s System) bool { return s.Name == name }) {
			return fmt.Errorf("no system %q: -list tells which there are", name)
		}
	}
	p.systems = slices.DeleteFunc(systems(), func(s System) bool { return len(only) > 0 && !slices.Contains(only, s.Name) })
	return nil
}

// list tells the works, and the systems that have one of them.
func (p *plan) list(out io.Writer) {
	var listed []System
	for _, w := range p.works {
		var names []string
		for _, s := range p.systems {
			if _, ok := w.measures[s.Name]; ok {
				names, listed = append(names, s.Name), append(listed, s)
			}
		}
		_, _ = fmt.Fprintf(out, "%-10s %s (%s)\n", w.name, w.title, strings.Join(names, ", "))
	}
	for _, s := range p.systems {
		if slices.ContainsFunc(listed, func(x System) bool { return x.Name == s.Name }) {
			_, _ = fmt.Fprintf(out, "%-16s %s, %s: %s\n", s.Name, s.Title, s.Durability, s.Settings)
		}
	}
}
