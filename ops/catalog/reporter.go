package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

const (
	// NoReports as an interval means never.
	NoReports time.Duration = -1

	leastEvery   = 10 * time.Second
	reportWithin = 10 * time.Second
	lastWithin   = 3 * time.Second // a stop waits so long at most
	keep         = 24 * time.Hour
	sweepMost    = 500 // old rows that one report removes
)

// ReporterConfig says how a worker publishes its reports.
type ReporterConfig struct {
	// Program and Version name the program, as in the catalog. Both default to "unknown".
	Program, Version string

	// Every is the time between two reports, at least 10 seconds. NoReports means never: Run then only waits for the
	// end of its context. Defaults to a minute.
	Every time.Duration

	// WaitsFrom returns, for a queue that the worker leaves out at its program's level, the level from which it does,
	// and 0 for any other queue; see package worker/limiters. Defaults to none.
	WaitsFrom func(queue string) int

	// Logger gets the lines about a store that fails. Defaults to slog.Default().
	Logger *slog.Logger
}

// A Reporter publishes the reports of one worker.
type Reporter struct {
	rows   *storage.Table
	worker *worker.Worker
	cfg    ReporterConfig
	id     string    // of this run of the worker
	began  time.Time // when NewReporter was called

	published map[string]worker.Counts // all that the rows have
	until     float64                  // Up of the last row
	n         int                      // rows that were tried
	stored    bool                     // some row is in the store
	swept     time.Time                // the hour whose old rows are gone
	failed    int                      // attempts since trouble with the store began
}

// NewReporter returns a reporter of all that a worker has done and will do. The worker has one, made before it runs.
func NewReporter(store *storage.Store, w *worker.Worker, cfg ReporterConfig) (*Reporter, error) {
	cfg.Program, cfg.Version = cmp.Or(cfg.Program, "unknown"), cmp.Or(cfg.Version, "unknown")
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	if cfg.Every != NoReports && cfg.Every < leastEvery {
		return nil, fmt.Errorf("catalog: Every is %v; want at least %v, or %d for never", cfg.Every, leastEvery, NoReports)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var id [8]byte
	rand.Read(id[:])
	return &Reporter{rows: store.Table(table), worker: w, cfg: cfg, id: hex.EncodeToString(id[:]), began: time.Now(), published: map[string]worker.Counts{}}, nil
}

// Run publishes until ctx ends, and then once more. Let ctx end after the worker's Run. It returns nil.
func (p *Reporter) Run(ctx context.Context) error {
	if p.cfg.Every == NoReports {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.publish(ctx, reportWithin, false)
		case <-ctx.Done():
			p.publish(context.WithoutCancel(ctx), lastWithin, true)
			return nil
		}
	}
}

// publish publishes what was done since the last row, and removes old rows. The last report of a worker that never did
// anything is left out.
func (p *Reporter) publish(ctx context.Context, within time.Duration, last bool) {
	now, all := time.Now(), p.worker.Counts()
	up := seconds(now.Sub(p.began))
	report := Report{
		Program: p.cfg.Program, Version: p.cfg.Version, Worker: p.worker.Name(), Time: now.UTC().Truncate(time.Millisecond),
		Seconds: seconds(now.Sub(p.began)) - p.until, Up: up, Last: last, Queues: map[string]QueueReport{},
	}
	any := p.stored
	for name, counts := range all {
		q := queueOf(counts.Since(p.published[name]))
		if p.cfg.WaitsFrom != nil {
			q.WaitsFrom = p.cfg.WaitsFrom(name)
		}
		report.Queues[name] = q
		any = any || q.work() > 0
	}
	if last && !any {
		return
	}
	attempt, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body, err := report.encode()
	if err == nil {
		p.n++
		_, err = p.rows.Put(attempt, partition(now), keyOf(now, p.id, p.n), body, storage.Condition{})
	}
	if err == nil {
		p.published, p.until, p.stored = all, up, true
		err = p.sweep(attempt, now)
	}
	if ctx.Err() == nil {
		p.log(ctx, err)
	}
}

// queueOf returns what a report tells of a queue.
func queueOf(c worker.Counts) QueueReport {
	q := QueueReport{
		Done: c.Done, Retried: c.Retried, Poisoned: c.Poisoned, Cancelled: c.Cancelled, HandedBack: c.HandedBack, InHand: c.InHand,
		P50: milliseconds(c.Times.Quantile(0.5)), P99: milliseconds(c.Times.Quantile(0.99)),
	}
	for kind, k := range c.Kinds {
		if k == (worker.KindCounts{}) || len(kind) > maxName {
			continue
		}
		if q.Kinds == nil {
			q.Kinds = map[channel.Kind]KindReport{}
		}
		q.Kinds[kind] = KindReport(k)
	}
	return q
}

// sweep removes the rows of this hour on earlier days, once an hour. So whoever fills a partition empties it.
func (p *Reporter) sweep(ctx context.Context, now time.Time) error {
	hour := now.UTC().Truncate(time.Hour)
	if hour.Equal(p.swept) {
		return nil
	}
	var old []string
	for row, err := range p.rows.Query(ctx, partition(hour), storage.RowRange{To: now.Add(-keep).UTC().Format(layout), Limit: sweepMost}) {
		if err != nil {
			return err
		}
		old = append(old, row.Key)
	}
	if err := p.rows.DeleteRows(ctx, partition(hour), old); err != nil {
		return err
	}
	if len(old) < sweepMost {
		p.swept = hour
	}
	return nil
}

// log tells when trouble with the store begins, and when it is over.
func (p *Reporter) log(ctx context.Context, err error) {
	switch {
	case err == nil && p.failed > 0:
		p.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "what this worker counts is published again", slog.Int("failed", p.failed))
		p.failed = 0
	case err != nil:
		if p.failed++; p.failed == 1 {
			p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't publish what this worker counts; the operator's tools show no rates until it works again", slog.Any("error", err))
		}
	}
}
