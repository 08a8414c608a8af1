package ops_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
)

// Law: the first page has at most 60 KB on its way, with 1,000 queues.
func TestLawTheFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	const queues, most = 1000, 60_000
	names := make([]string, queues)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%04d-mails", i*7919%10_000)
	}
	w := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, channel.Event[worldtest.Refused](names...))
	worldtest.Send(w, worldtest.Refused{})
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "shop", Version: "v1.4.0"}); err != nil {
		t.Fatal(err)
	}
	x := &site{World: w, tokens: map[act.Role]string{}}
	x.serve(t, w.Store)
	for _, path := range []string{"", "queues"} {
		body := x.want(t, 200, ask{path: path, role: act.Admin})
		var sent bytes.Buffer
		z := gzip.NewWriter(&sent)
		if _, err := z.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("page %q: %d bytes, %d gzipped", path, len(body), sent.Len())
		if sent.Len() > most {
			t.Errorf("page %q has %d bytes, want at most %d", path, sent.Len(), most)
		}
	}
}
