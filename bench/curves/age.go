package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

const (
	theOne   = "the-one" // the key of the value object
	late     = 100       // replays of messages far behind the watermark
	chunk    = 20_000    // commands that wait at a time during the aging
	pastDays = 40        // days, which is past the retention of 30 days
)

// An ager measures one value object as it grows old.
type ager struct {
	*bench
	*world
	age     int      // commands applied
	ids     []string // of some commands, the oldest first
	applied chan struct{}
}

func (b *bench) age(ctx context.Context) ([]*table, error) {
	t := &table{Name: "age", Title: "One value object as it ages",
		Note: "Decide on SQLite. One by one: a command is sent when the one before is applied. Folded: all wait when the worker starts. " +
			"File: what the process has given to write calls, checkpoints included. " +
			"Late: replays of commands from far behind the watermark. And a month: the first rows are past their retention.",
		Columns: []string{"window", "age", "µs one by one, p50", "µs folded", "requests one by one", "requests folded", "writes folded",
			"document bytes one by one", "document bytes folded", "rows folded", "file bytes one by one", "file bytes folded",
			"document size", "late", "point reads for each", "doubled", "too old, refused"},
		charts: []plot{
			{y: "µs one by one, p50", x: "age", by: []string{"window"}, logX: true}, {y: "µs folded", x: "age", by: []string{"window"}, logX: true},
			{y: "document bytes one by one", x: "age", by: []string{"window"}, logX: true}, {y: "document size", x: "age", by: []string{"window"}, logX: true},
		}}
	for _, window := range b.window {
		if err := b.ageOf(ctx, window, t); err != nil {
			return []*table{t}, err
		}
	}
	return []*table{t}, nil
}

func (b *bench) ageOf(ctx context.Context, window int, t *table) (err error) {
	path, err := b.file()
	if err != nil {
		return err
	}
	w, err := open(ctx, "sqlite:"+path, plan{Ticks: true, Window: window})
	if err != nil {
		return err
	}
	defer func() { _ = w.store.Close() }()
	a := &ager{bench: b, world: w, applied: make(chan struct{}, 1)}
	w.counted.committed = func() {
		select {
		case a.applied <- struct{}{}:
		default:
		}
	}
	for _, age := range powers(100, b.max) {
		for a.age < age {
			if _, err := a.fold(ctx, min(chunk, age-a.age)); err != nil {
				return err
			}
		}
		b.say("window %d: %d commands applied", window, a.age)
		row, err := quietly(ctx, b, func() ([]any, error) { return a.row(ctx, window, age, "") })
		if err != nil {
			return err
		}
		t.add(row...)
	}
	// From the day on which the first rows are past retention, each write deletes some rows.
	row, err := quietly(ctx, b, func() ([]any, error) {
		if err := a.seedPast(ctx, 2*b.n); err != nil {
			return nil, err
		}
		return a.row(ctx, window, b.max, " and a month")
	})
	if err == nil {
		t.add(row...)
	}
	return err
}

// row measures the object at its present age with at most so many commands. The row's name is the age and more.
func (a *ager) row(ctx context.Context, window, most int, more string) ([]any, error) {
	var age any = a.age
	if more != "" {
		age = cell(age) + more
	}
	n := min(a.n, most)
	before := a.counted.counts()
	times, err := a.oneByOne(ctx, n)
	if err != nil {
		return nil, err
	}
	single := a.counted.counts().minus(before)
	ones := len(times)

	before = a.counted.counts()
	n = min(10*a.n, most) // fewer would be over before the worker is warm
	took, err := a.fold(ctx, n)
	if err != nil {
		return nil, err
	}
	folded := a.counted.counts().minus(before)
	doc, err := a.counters.Get(ctx, theOne, "")
	if err != nil {
		return nil, err
	}
	again, reads, err := a.replay(ctx)
	if err != nil {
		return nil, err
	}
	refused, err := a.tooOld(ctx)
	if err != nil {
		return nil, err
	}
	after, err := a.counters.Get(ctx, theOne, "")
	if err != nil {
		return nil, err
	}
	slices.Sort(times)
	return []any{window, age, micros(times[ones/2]), micros(took) / float64(n), per(single.Requests, ones), per(folded.Requests, n), per(folded.Writes, n),
		per(single.Bytes, ones), per(folded.Bytes, n), per(folded.Rows, n), per(single.File, ones), per(folded.File, n),
		doc.Size, again, per(reads, int64(again)), int(after.Value.Count) - a.age, refused}, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// command makes a new command, and remembers the ID of some.
func (a *ager) command(int) tick {
	id := channel.NewID()
	if a.age < late || a.age%(1+a.max/1000) == 0 {
		a.ids = append(a.ids, id)
	}
	a.age++
	return tick{Key: theOne, Payload: payload(small), ID: id}
}

// fold applies n commands that all wait when the worker starts.
func (a *ager) fold(ctx context.Context, n int) (time.Duration, error) {
	if err := fill(ctx, a.ticks, n, 500, a.command); err != nil {
		return 0, err
	}
	return a.drain(ctx, worker.Config{}, ticks, n)
}

// oneByOne sends each command when the one before is applied, for a limited time.
func (a *ager) oneByOne(ctx context.Context, n int) (times []time.Duration, err error) {
	ended := time.Now().Add(a.most)
	_, err = a.work(ctx, worker.Config{}, ticks, time.Nanosecond, func(int64) (bool, error) {
		select { // drains the channel of the run before
		case <-a.applied:
		default:
		}
		began := time.Now()
		if err := a.ticks.Send(ctx, a.command(0)); err != nil {
			return false, err
		}
		select {
		case <-a.applied:
			times = append(times, time.Since(began))
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		return len(times) == n || time.Now().After(ended), nil
	})
	return times, err
}

// replay repeats commands that were applied long ago: half of them the oldest of all, half from any time.
func (a *ager) replay(ctx context.Context) (n int, reads int64, err error) {
	ids := a.ids[:min(late/2, len(a.ids))]
	if rest := a.ids[len(ids):]; len(rest) > 0 {
		for i := range late / 2 {
			ids = append(ids[:len(ids):len(ids)], rest[i*len(rest)/(late/2)])
		}
	}
	before := a.counted.counts()
	err = fill(ctx, a.ticks, len(ids), 500, func(i int) tick { return tick{Key: theOne, Payload: payload(small), ID: ids[i]} })
	if err == nil {
		_, err = a.drain(ctx, worker.Config{}, ticks, len(ids))
	}
	return len(ids), a.counted.counts().minus(before).Reads, err
}

// tooOld sends a command from before the retention, which can't be judged. It returns how many were refused: one, or
// none if it was applied.
func (a *ager) tooOld(ctx context.Context) (int, error) {
	poison := func() (int64, error) {
		all, err := poison.Count(ctx, a.store)
		return all[ticks], err
	}
	before, err := poison()
	if err != nil {
		return 0, err
	}
	id := channel.DerivedID(pastID(a.age), "too old")
	if err := a.ticks.Send(ctx, tick{Key: theOne, Payload: payload(small), ID: id}); err != nil {
		return 0, err
	}
	refused := 0
	_, err = a.work(ctx, worker.Config{}, ticks, 10*time.Millisecond, func(handled int64) (bool, error) {
		now, err := poison()
		refused = int(now - before)
		return refused > 0 || handled > 0, err
	})
	return refused, err
}

// pastID is an ID from before the retention.
func pastID(i int) string {
	ms := time.Now().AddDate(0, 0, -pastDays).UnixMilli() + int64(i)
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, i)
}

// seedPast writes the rows that commands of long ago would have left.
func (a *ager) seedPast(ctx context.Context, n int) error {
	rows := make([]storage.RowPut, n)
	old := time.Now().AddDate(0, 0, -pastDays).UnixMilli()
	for i := range rows {
		rows[i] = storage.RowPut{Key: fmt.Sprintf("%012x-%024x", old+int64(i), i), Data: make([]byte, 6)}
	}
	return a.store.Table("counters-applied").PutRows(ctx, theOne, rows)
}
