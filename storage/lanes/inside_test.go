package lanes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Tenants with ten million names take no more memory than a few, and one among them that floods is still found.
func TestTenantsWithManyNames(t *testing.T) {
	t.Parallel()
	c := newCrowd()
	r := rand.New(rand.NewPCG(1, 2))
	now, found := time.Now(), false
	for i := range 200_000 {
		now = now.Add(100 * time.Microsecond)
		if i%8 == 0 {
			found = c.count(7, now)
			continue
		}
		if c.count(key(r.Uint64()), now) {
			t.Fatal("a tenant with one message is noisy")
		}
	}
	if !found {
		t.Error("a tenant with an eighth of all messages is not found")
	}
	for _, w := range c.windows {
		if len(w.counts) > mostCounted {
			t.Errorf("%d tenants are counted", len(w.counts))
		}
	}
}

// A document of any number of tenants is taken in part, and written in part.
func TestADocumentIsBounded(t *testing.T) {
	t.Parallel()
	c := newNoisyTenants(nil, "q")
	for n := range 100 {
		d := document{}
		for i := range 60 {
			d.Noisy = append(d.Noisy, documented{fmt.Sprintf("%016x", n*1000+i), 1, 0})
		}
		body, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		c.see(storage.Blob{Body: body})
	}
	if len(c.crowd.known) > 2*mostNoisy {
		t.Errorf("%d tenants are known as noisy; want %d at most", len(c.crowd.known), 2*mostNoisy)
	}
}

// Tenants that one process alone has reported are bounded, too.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		c := newNoisyTenants(s.Blobs(container), "q")
		for n := range 100 {
			var keys []key
			for i := range 10 {
				keys = append(keys, key(10*n+i+1))
			}
			c.report(t.Context(), keys)
			time.Sleep(window)
		}
		if len(c.crowd.known) > 2*mostNoisy+10 {
			t.Errorf("%d tenants are known as noisy; want %d at most", len(c.crowd.known), 2*mostNoisy)
		}
	})
}

// A sweep takes no more than what can be received before its visibility ends.
func TestASweepIsBoundedByWhatIsHandled(t *testing.T) {
	t.Parallel()
	r := &roster{props: driver.Props{MaxReceive: 512}}
	for guess, want := range map[float64]int{0.01: 512, 1: 80, 60: 8} {
		if r.turn.guess = guess; r.sweeps(8, 30*time.Second) != want {
			t.Errorf("messages of %v s: %d are taken, want %d", guess, r.sweeps(8, 30*time.Second), want)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"noisy":[{"tenant":"00000000000000ff","beat":1}]}`))
	f.Add([]byte(`{"noisy":[{"tenant":"-1","beat":-1}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := newNoisyTenants(nil, "q")
		c.see(storage.Blob{Body: body, ETag: "1"})
		if len(c.crowd.known) > 2*mostNoisy || c.etag != "1" {
			t.Errorf("%d tenants are known, ETag %q", len(c.crowd.known), c.etag)
		}
	})
}

// Each lane gets the same part of the time, whatever its messages take and however many it has.
func TestLanesWithSlowMessagesGetFewer(t *testing.T) {
	t.Parallel()
	var all turns
	c := &class{weight: 4}
	all.classes = []*class{c}
	for i := range 3 {
		c.lanes = append(c.lanes, &lane{number: i, turns: c})
	}
	takes := []float64{0.001, 0.01, 0.1}
	spent := make([]float64, 3)
	for range 20_000 {
		for _, a := range all.divide(1, c.lanes, limitOf(t.Context())) {
			for range a.n {
				a.lane.hand++
				c.hand++
				a.lane.end(takes[a.lane.number], 1)
				c.end(takes[a.lane.number], c.weight)
				spent[a.lane.number] += takes[a.lane.number]
			}
		}
	}
	for i, s := range spent {
		if s < 0.9*spent[0] || s > 1.1*spent[0] {
			t.Errorf("lane %d has had %.1f s of the time, lane 0 %.1f s", i, s, spent[0])
		}
	}
}

// A lane that had nothing for long has saved nothing up, and is served at once.
func TestALaneThatBeginsIsServedNextAndNotForLong(t *testing.T) {
	t.Parallel()
	var all turns
	c := &class{weight: 4}
	all.classes = []*class{c}
	for i := range 2 {
		c.lanes = append(c.lanes, &lane{number: i, turns: c})
	}
	serve := func(from ...*lane) *lane {
		for _, a := range all.divide(1, from, limitOf(t.Context())) {
			if a.n > 0 {
				a.lane.hand++
				c.hand++
				a.lane.end(0.01, 1)
				c.end(0.01, c.weight)
				return a.lane
			}
		}
		return nil
	}
	for range 1000 {
		serve(c.lanes[0])
	}
	served := map[*lane]int{}
	for range 100 {
		served[serve(c.lanes...)]++
	}
	if n := served[c.lanes[1]]; n < 45 || n > 55 {
		t.Errorf("the lane that began got %d of 100 turns", n)
	}
}
