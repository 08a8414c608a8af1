package wire_test

import (
	"testing"

	"github.com/millrace-go/millrace/internal/wire"
)

// A mark says of a message what its envelope says, in whatever order its members come.
func FuzzReadMark(f *testing.F) {
	full := fullEnvelope()
	full.Priority = "low"
	body, err := full.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"data":{"tenantid":"other","id":[1,{}]},"specversion":"1.0","id":"1","source":"/web","type":"k","tenantid":"n\u00f6rd"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/web","type":"k","due":"2027-01-01T00:00:00Z","priorityclass":"high"}`))
	f.Add([]byte(members("dataref", quoted(someClaim))))
	f.Add([]byte(members("dataref", "null")))
	f.Add([]byte(`{"tenantid":"a"`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := wire.ReadMark(body)
		e, err := wire.Decode(body)
		if err != nil {
			return
		}
		want := wire.Mark{ID: e.ID, Tenant: e.Tenant, Priority: e.Priority, Delayed: !e.Due.IsZero(), Apart: e.DataRef != ""}
		if m != want {
			t.Errorf("got %+v, want %+v", m, want)
		}
	})
}
