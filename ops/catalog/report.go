package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

const (
	table = "pulse"

	maxRow    = 32 << 10
	maxName   = 200   // bytes of the name of a program, a version, a worker or a kind
	maxCount  = 1e12  // of one report
	maxTime   = 1e9   // seconds or milliseconds
	mostLevel = 3     // see throttle.MostLevel
	inDoubt   = 0.002 // seconds that rounding may make of two reports that follow one another
)

// A Report is what a worker has done in some time, mostly a minute.
type Report struct {
	Program string    `json:"program"`
	Version string    `json:"version"`
	Worker  string    `json:"worker"`         // worker.Worker.Name
	Time    time.Time `json:"time"`           // when it was published, by the worker's clock
	Seconds float64   `json:"seconds"`        // that it counts
	Up      float64   `json:"up_seconds"`     // since the worker began to publish
	Last    bool      `json:"last,omitempty"` // the worker has stopped
	Cut     bool      `json:"cut,omitempty"`  // the queues in which least was done are left out

	Queues map[string]QueueReport `json:"queues"` // that the worker consumes

	// ID tells the runs of workers apart. [ReadReports] sets it.
	ID string `json:"-"`
}

// A QueueReport is what a worker has done with the messages of a queue.
type QueueReport struct {
	Done       int64                       `json:"done,omitempty"`
	Retried    int64                       `json:"retried,omitempty"`
	Poisoned   int64                       `json:"poisoned,omitempty"`
	Cancelled  int64                       `json:"cancelled,omitempty"` // deleted unhandled
	HandedBack int64                       `json:"handed_back,omitempty"`
	InHand     int64                       `json:"in_hand,omitempty"` // at the end
	P50        float64                     `json:"p50_ms,omitempty"`  // running time of handlers; 0 where none ran
	P99        float64                     `json:"p99_ms,omitempty"`
	Kinds      map[channel.Kind]KindReport `json:"kinds,omitempty"` // of which there was any

	// WaitsFrom is the level of the program from which the queue waits, if it waits at the end: see
	// ReporterConfig.WaitsFrom.
	WaitsFrom int `json:"waits_from,omitempty"`
}

// A KindReport is what a worker has done with the messages of a kind.
type KindReport struct {
	Done   int64 `json:"done,omitempty"`
	Failed int64 `json:"failed,omitempty"` // attempts
}

// Out is the number of messages that have left the queue.
func (q *QueueReport) Out() int64 { return q.Done + q.Poisoned + q.Cancelled }

// work is how much there is to tell of a queue.
func (q *QueueReport) work() int64 { return q.Out() + q.Retried + q.HandedBack + q.InHand }

// encode returns the row. It leaves out what the bound leaves no room for.
func (p Report) encode() ([]byte, error) {
	p.Program, p.Version, p.Worker = shorten(p.Program), shorten(p.Version), shorten(p.Worker)
	b, err := json.Marshal(p)
	if err != nil || len(b) <= maxRow {
		return b, err
	}
	all := maps.Clone(p.Queues)
	for name, q := range all {
		q.Kinds = nil
		all[name] = q
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		x, y := all[a], all[b]
		return cmp.Or(cmp.Compare(y.work(), x.work()), strings.Compare(a, b))
	})
	for n := len(names); ; n = n * 9 / 10 {
		p.Queues, p.Cut = map[string]QueueReport{}, n < len(names)
		for _, name := range names[:n] {
			p.Queues[name] = all[name]
		}
		if b, err = json.Marshal(p); err != nil || len(b) <= maxRow || n == 0 {
			return b, err
		}
	}
}

// shorten cuts a name that is too long.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	cut := maxName - len("…")
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}

var errNone = errors.New("no pulse")

// decodeReport returns the report of a row, or an error for whatever is none.
func decodeReport(row storage.Row) (p Report, err error) {
	if len(row.Data) > maxRow || json.Unmarshal(row.Data, &p) != nil {
		return p, errNone
	}
	at, id, _ := strings.Cut(row.Key, " ")
	p.ID, _, _ = strings.Cut(id, ".")
	if p.Time.UTC().Format(layout) != at || p.ID == "" {
		return p, errNone
	}
	return p, p.check()
}

// check reports a report that no worker has published.
func (p *Report) check() error {
	for _, name := range []string{p.Program, p.Version, p.Worker} {
		if len(name) > maxName {
			return errNone
		}
	}
	good := inRange(p.Seconds, maxTime) && inRange(p.Up, maxTime) && p.Seconds <= p.Up+inDoubt
	for name, q := range p.Queues {
		good = good && storage.CheckName(name) == nil && inRange(q.P50, maxTime) && inRange(q.P99, maxTime) && inRange(float64(q.WaitsFrom), mostLevel)
		for _, n := range []int64{q.Done, q.Retried, q.Poisoned, q.Cancelled, q.HandedBack, q.InHand} {
			good = good && inRange(float64(n), maxCount)
		}
		for kind, k := range q.Kinds {
			good = good && len(kind) <= maxName && inRange(float64(k.Done), maxCount) && inRange(float64(k.Failed), maxCount)
		}
	}
	if !good {
		return errNone
	}
	return nil
}

func inRange(x, most float64) bool { return x >= 0 && x <= most }

// layout is the form of a time in the key of a row.
const layout = "2006-01-02T15:04:05Z"

// partition returns the partition of the rows of an hour: these, and those of the same hour on other days.
func partition(hour time.Time) string { return hour.UTC().Format("15") }

// keyOf returns the key of a worker's nth row.
func keyOf(at time.Time, id string, n int) string {
	return fmt.Sprintf("%s %s.%d", at.UTC().Format(layout), id, n)
}

// seconds returns a time in seconds, to the millisecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// milliseconds returns a time in milliseconds, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
