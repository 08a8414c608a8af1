package ops_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// BenchmarkPages asks for pages of a store with 1,000 queues and 100,000 poison messages, as somebody does who looks
// each two seconds: what is read slowly is shown as it was, and read again. first-ms is the first look, which waits for
// it.
func BenchmarkPages(b *testing.B) {
	s := worldtest.OpenStore(b, "?sync=normal")
	crowd(b, s, 1000, 100)
	x := newSite(b, s)
	for _, path := range []string{"", "queues", "queues/queue-0500", "poison", "poison?queue=queue-0500"} {
		b.Run("/"+path, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				x.want(b, 200, ask{path: path, role: act.Viewer})
				took = append(took, time.Since(start))
				b.StopTimer()
				time.Sleep(2100 * time.Millisecond)
				b.StartTimer()
			}
			b.ReportMetric(float64(took[0].Microseconds())/1000, "first-ms")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// crowd fills a store with queues, which have a message and some poison messages each.
func crowd(tb testing.TB, s *storage.Store, queues, poisoned int) {
	tb.Helper()
	now := time.Now()
	for q := range queues {
		name := fmt.Sprintf("queue-%04d", q)
		if err := s.Queue(name).Send(tb.Context(), []storage.Message{{Body: []byte("x")}}); err != nil {
			tb.Fatal(err)
		}
		for i := range poisoned {
			id := channel.NewID()
			key := sha256.Sum256([]byte(id))
			body := fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/test","type":"a.b.v1","data":{"n":%d}}`, id, i)
			raw, err := json.Marshal(poison.Entry{Key: hex.EncodeToString(key[:16]), Queue: name, Reason: "no budget", Error: "boom", Attempts: 5, First: now, Last: now, ID: id, Kind: "a.b.v1", Body: body})
			if err != nil {
				tb.Fatal(err)
			}
			if _, err := s.Blobs("poison").Put(tb.Context(), name+"/"+hex.EncodeToString(key[:16]), raw, storage.Condition{}); err != nil {
				tb.Fatal(err)
			}
		}
	}
}
