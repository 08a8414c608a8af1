package pause

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Whatever somebody writes in the place of the pauses, it is refused as a whole, or can be kept, changed and read
// again.
func FuzzDocument(f *testing.F) {
	for _, body := range []string{
		`{"pauses":{"mails":{"by":"ada","why":"x","since":"2026-12-24T18:00:00Z","until":"2026-12-24T19:00:00Z","id":"A"}},"epoch":1,"id":"A"}`,
		`{"pauses":{"mails":{"by":"ada","since":"2026-12-24T18:00:00Z","id":"A"}},"epoch":9007199254740992,"id":"A"}`,
		`{"pauses":{},"epoch":1,"id":""}`, `{"pauses":null,"epoch":1}`, `{"epoch":1}`, `{}`, `null`, ``, `[]`, `{"pauses":{},"epoch":0}`, `{"pauses":{},"epoch":-1}`,
		`{"pauses":{"a b":{"id":"A"}},"epoch":1}`, `{"pauses":{"a":{}},"epoch":1}`, `{"pauses":{"a":null},"epoch":1}`, `{"pauses":{},"epoch":1e400}`,
		`{"pauses":{"a":{"id":"A","since":"2026-12-24T18:00:00Z","until":"2026-12-24T18:00:00Z"}},"epoch":1}`,
		`{"pauses":{"a":{"id":"A","since":"0001-01-01T00:00:00Z","until":"9999-12-31T23:59:59Z"}},"epoch":1}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := decode(body)
		if err != nil {
			if d.Pauses != nil {
				t.Errorf("%q: refused, and %+v of it counts", body, d)
			}
			return
		}
		if !json.Valid(body) || d.Pauses == nil {
			t.Errorf("%q was taken for %+v", body, d)
		}
		for queue, e := range d.Pauses {
			if length := e.Until.Sub(e.Since); storage.CheckName(queue) != nil || e.ID == "" || !e.Until.IsZero() && (length <= 0 || length > mostLength) {
				t.Errorf("%q: a pause of %q is %+v", body, queue, e)
			}
		}
		next := (&Pauses{now: time.Now}).paused(d, []string{"bills"}, time.Hour, Note{By: "ada"}, "B")
		next.Epoch = d.Epoch%mostEpoch + 1
		written, err := encode(next)
		if err != nil {
			return // too large by now
		}
		if again, err := decode(written); err != nil || len(again.Pauses) != len(next.Pauses) {
			t.Errorf("%q became %q, which is read as %+v, %v", body, written, again, err)
		}
	})
}
