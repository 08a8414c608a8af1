package catalog_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
)

// good is the body of a report, but for its time and for what %s adds.
const good = `{"program":"shop","version":"v1","worker":"one","time":%q,"seconds":60,"up_seconds":60,"queues":{"jobs":{"done":60}}%s}`

// Law 6: whatever is in the table, the reports in it are read.
func TestLaw13HostileRows(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	now := time.Now().UTC().Truncate(time.Second)
	at := now.Format(time.RFC3339)
	bodies := []string{
		"", "null", "[]", "7", `"x"`, "{", "{}", strings.Repeat("[", 30_000), fmt.Sprintf(good, at, strings.Repeat(" ", 33_000)),
		fmt.Sprintf(good, now.Add(time.Hour).Format(time.RFC3339), ""),
		fmt.Sprintf(good, at, `,"seconds":-1`), fmt.Sprintf(good, at, `,"seconds":1e300`), fmt.Sprintf(good, at, `,"seconds":61`), fmt.Sprintf(good, at, `,"up_seconds":1e999`),
		fmt.Sprintf(good, at, `,"queues":{"jobs":{"done":-60}}`), fmt.Sprintf(good, at, `,"queues":{"jobs":{"done":9223372036854775807}}`),
		fmt.Sprintf(good, at, `,"queues":{"jobs":{"p99_ms":1e18}}`), fmt.Sprintf(good, at, `,"queues":{"jobs":{"done":1.5}}`),
		fmt.Sprintf(good, at, `,"queues":{"no queue":{}}`), fmt.Sprintf(good, at, `,"queues":[]`),
		fmt.Sprintf(good, at, `,"queues":{"jobs":{"kinds":{"k":{"failed":-1}}}}`), fmt.Sprintf(good, at, `,"queues":{"jobs":{"kinds":{"`+strings.Repeat("k", 300)+`":{}}}}`),
		fmt.Sprintf(good, at, `,"worker":"`+strings.Repeat("w", 300)+`"`), "\xff\xfe",
	}
	for i, body := range bodies {
		putRaw(t, s, now, catalog.KeyOf(now, fmt.Sprint("bad", i), 1), []byte(body))
	}
	putRaw(t, s, now, now.Format("2006-01-02T15:04:05Z"), fmt.Appendf(nil, good, at, "")) // a key without an ID
	putRaw(t, s, now, now.Format("2006-01-02T15:04:05Z")+" .", fmt.Appendf(nil, good, at, ""))
	putRaw(t, s, now, "zzz", fmt.Appendf(nil, good, at, ""))
	putRaw(t, s, now, catalog.KeyOf(now, "good", 1), fmt.Appendf(nil, good, at, ""))
	all := readReports(t, s)
	if len(all) != 1 || all[0].ID != "good" || catalog.Rates(all, catalog.Window)["jobs"].Out != 1 {
		t.Errorf("got %+v, want the good one", all)
	}
}

// Law 6: whatever a row says, rates are numbers, and no reader fails.
func FuzzRows(f *testing.F) {
	for _, more := range []string{"", `,"seconds":0`, `,"last":true`, `,"queues":{"jobs":{"done":5,"p99_ms":1}}`} {
		f.Add(fmt.Sprintf(good, "2000-01-01T00:00:00Z", more), fmt.Sprintf(good, "2000-01-01T00:00:00Z", `,"up_seconds":120`))
	}
	instant := fmt.Sprintf(good, "2000-01-01T00:00:00Z", `,"seconds":1e-300`)
	f.Add(instant, instant)
	f.Fuzz(func(t *testing.T, a, b string) {
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		all := catalog.Decode(catalog.KeyOf(at, "x", 1), a, catalog.KeyOf(at, "x", 2), b, catalog.KeyOf(at, "y", 1), b)
		for _, within := range []time.Duration{-time.Hour, 0, catalog.Window} {
			for name, r := range catalog.Rates(all, within) {
				if name == "" || math.IsNaN(r.Out) || math.IsInf(r.Out, 0) || r.Out < 0 || r.Over <= 0 || r.P99 < 0 {
					t.Errorf("%q, %q: got %+v of queue %q", a, b, r, name)
				}
			}
		}
	})
}
