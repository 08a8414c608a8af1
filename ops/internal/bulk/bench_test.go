package bulk_test

import (
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/internal/bulk"
)

// BenchmarkRetry sends 10,000 messages back, on SQLite as a program opens it.
func BenchmarkRetry(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		b.StopTimer()
		s := worldtest.OpenAt(b, filepath.Join(b.TempDir(), "test.db"))
		l := newLab(b, s)
		l.poison(b, n)
		d := driver(b, s, "")
		d.Page = 0
		b.StartTimer()
		id := l.ask(b, bulk.Retry, bulk.Filter{}).ID
		if a := follow(b, d, id); a.Done != n {
			b.Fatalf("got %+v", a)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
