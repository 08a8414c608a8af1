package main

import (
	"context"
	"fmt"
	"slices"
)

// A System is a row of the report.
type System struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Server   string   `json:"server,omitempty"` // that it needs
	Modules  []string `json:"modules"`          // whose versions are reported
	Settings string   `json:"settings"`
	Retries  string   `json:"retries"` // what its defaults do about a job that fails

	open func(ctx context.Context, place string) (contestant, error)
}

// The servers.
const (
	onPostgres = "postgres"
	onRedis    = "redis"
)

// systems are all, ours first.
func systems() []System {
	ours := []string{"github.com/millrace-go/millrace", "modernc.org/sqlite"}
	watermill := []string{"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-sql/v4"}
	return []System{
		{"millrace", "Millrace with a guard", "", ours, "SQLite, all defaults; guard.Config{Fault: guard.HTTP}, and its Limiter",
			"the breaker pauses the queue; one probe after 1 s, later up to 30 s; 5 attempts, which an outage doesn't spend", openGuarded},
		{"millrace-plain", "Millrace without", "", ours, "SQLite, all defaults",
			"5 attempts, 1, 2, 4 and 8 s between; then the poison queue", openPlain},
		{"asynq", "Asynq", onRedis, []string{"github.com/hibiken/asynq"}, "appendonly, appendfsync everysec; all defaults",
			"25 retries; before the nth, counted from 0, n⁴ + 15 s, and up to 30 (n+1) s more; then archived", openAsynq},
		{"river", "River", onPostgres, []string{"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5"},
			"synchronous_commit=on; MaxWorkers 100, as in its first example", "25 attempts; n⁴ s after the nth, and up to a tenth more or less; then discarded", openRiver},
		{"watermill", "Watermill", onPostgres, watermill,
			"synchronous_commit=on; queue schema, DeleteOnAck, one subscriber; Retry of its “Getting started”: MaxRetries 3, InitialInterval 100 ms",
			"3 retries within 0.2 s; then again after 1 s, without end; the messages behind it wait", openWatermill(false)},
		{"watermill-poison", "Watermill with PoisonQueue", onPostgres, watermill, "likewise, and its PoisonQueue around that",
			"3 retries within 0.2 s; then the poison topic", openWatermill(true)},
	}
}

// choose takes the named systems into the plan, or all.
func (p *plan) choose(names []string) error {
	p.systems = systems()
	for _, name := range names {
		if !slices.ContainsFunc(p.systems, func(s System) bool { return s.Name == name }) {
			return fmt.Errorf("no system %q: -list tells which there are", name)
		}
	}
	if len(names) > 0 {
		p.systems = slices.DeleteFunc(p.systems, func(s System) bool { return !slices.Contains(names, s.Name) })
	}
	return nil
}
