package row

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/limit/internal/bucket"
	"github.com/millrace-go/millrace/internal/agree"
)

// A blob of any content is refused, or its numbers are in bounds, and the targets are within the limit and within
// what each wants.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"members":{"a":{"limit":10,"share":4,"wants":10,"beat":1,"ttl":20000},"b":{"limit":10,"share":6,"wants":2,"beat":9,"ttl":3000}}}`))
	f.Add([]byte(`{"members":{"a":{"limit":1125899906842624,"share":1125899906842624,"wants":1125899906842624,"beat":1,"ttl":60000}}}`))
	f.Add([]byte(`{"members":{"":{"limit":1,"share":0,"wants":0,"beat":1,"ttl":20000}}}`))
	f.Add([]byte(`{"members":{}}`))
	f.Add([]byte(`{"members":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := decode(body)
		if err != nil {
			if !errors.Is(err, errUnreadable) {
				t.Error(err)
			}
			return
		}
		sum, targets := int64(0), d.targets()
		for id, r := range d.Members {
			target := targets[id]
			if target < 0 || target > r.Wants {
				t.Errorf("%s wants %d and is to have %d", id, r.Wants, target)
			}
			sum += target
			if given := d.given(id); given < 0 {
				t.Errorf("the others have %d", given)
			}
			_ = d.short(id, r.Share)
		}
		if len(d.Members) > 0 && sum > d.limit() {
			t.Errorf("%d of %d", sum, d.limit())
		}
		_ = d.hungry()
		b := bucket.NewRate(1000, joined(LeastTTL))
		_, _ = b.Take() // it wants all
		m := (&Keeper{cfg: Config{TTL: LeastTTL}, id: "me", seen: agree.Sighting[document]{Doc: d}}).join(b)
		m.sight.see(time.Now(), d)
		p := m.plan(time.Now())
		if others := p.doc.given("me"); p.row.Share < 0 || p.row.Share > max(0, p.doc.limit()-others) || !p.row.valid() {
			t.Errorf("a newcomer makes %+v of %s, and the others have %d", p.row, body, others)
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil && len(again) <= maxBytes {
			t.Errorf("what was read can't be written: %s", again)
		}
	})
}
