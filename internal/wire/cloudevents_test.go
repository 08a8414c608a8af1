package wire_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/millrace-go/millrace/internal/wire"
)

// The public SDK reads the events that this package writes, with all attributes right.
func TestSDKReadsOurs(t *testing.T) {
	t.Parallel()
	want := fullEnvelope()
	var got event.Event
	must(t, json.Unmarshal(mustEncode(t, want), &got), got.Validate())
	for _, attribute := range []struct {
		name      string
		got, want any
	}{
		{"specversion", got.SpecVersion(), "1.0"},
		{"id", got.ID(), want.ID},
		{"source", got.Source(), want.Source},
		{"type", got.Type(), string(want.Kind)},
		{"subject", got.Subject(), want.Subject},
		{"time", got.Time(), want.Time},
		{"datacontenttype", got.DataContentType(), "application/json"},
		{"data", string(got.Data()), string(want.Data)},
		{"correlationid", got.Extensions()["correlationid"], want.Correlation},
		{"causationid", got.Extensions()["causationid"], want.Causation},
		{"traceparent", got.Extensions()["traceparent"], want.TraceParent},
		{"tenantid", got.Extensions()["tenantid"], want.Tenant},
		{"replyto", got.Extensions()["replyto"], want.ReplyTo},
		{"sequence", got.Extensions()["sequence"], "00000000000000000017"},
		{"retried", got.Extensions()["retried"], want.Retried},
		{"attempts", got.Extensions()["attempts"], int32(2)},
		{"hangs", got.Extensions()["hangs"], int32(1)},
		{"handbacks", got.Extensions()["handbacks"], int32(3)},
		{"hops", got.Extensions()["hops"], int32(4)},
		{"due", got.Extensions()["due"], "2027-01-01T00:00:00Z"},
		{"since", got.Extensions()["since"], "2026-11-30T00:00:00Z"},
		{"lasterror", got.Extensions()["lasterror"], want.LastError},
		{"firstfailed", got.Extensions()["firstfailed"], "2026-12-01T18:31:00Z"},
		{"priority", got.Extensions()["priority"], int32(3)},
		{"region", got.Extensions()["region"], "eu"},
		{"sampled", got.Extensions()["sampled"], true},
	} {
		if attribute.got != attribute.want {
			t.Errorf("%s: got %#v, want %#v", attribute.name, attribute.got, attribute.want)
		}
	}
	if got, want := len(got.Extensions()), 18; got != want {
		t.Errorf("got %d extensions, want %d", got, want)
	}
}

func TestSDKReadsOursClaimChecked(t *testing.T) {
	t.Parallel()
	e := wire.Envelope{ID: "1", Source: "/web", Kind: "k", DataRef: someClaim}
	var got event.Event
	must(t, json.Unmarshal(mustEncode(t, e), &got), got.Validate())
	if got.Extensions()["dataref"] != someClaim || len(got.Data()) != 0 {
		t.Errorf("got %+v, want the reference and no data", got)
	}
}

// theirs makes a valid event of the SDK and passes it through its JSON form to this package.
func theirs(t *testing.T, change func(*event.Event)) wire.Envelope {
	t.Helper()
	e := event.New()
	e.SetID("17")
	e.SetSource("https://example.org/web")
	e.SetType("test.order.v1")
	change(&e)
	must(t, e.Validate())
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.Decode(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if got.ID != "17" || got.Source != "https://example.org/web" || got.Kind != "test.order.v1" {
		t.Errorf("got %+v from\n%s", got, b)
	}
	return got
}

func TestWeReadTheSDKs(t *testing.T) {
	t.Parallel()
	body := func(contentType string, data any) func(*event.Event) {
		return func(e *event.Event) {
			if err := e.SetData(contentType, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	const want = `{"table":4,"dish":"<soup>"}`
	order := Order{Table: 4, Dish: "<soup>"}
	for name, change := range map[string]func(*event.Event){
		"data":            body("application/json", order),
		"data_base64":     body("application/json", []byte(`{"table": 4, "dish": "\u003csoup\u003e"}`)),
		"charset":         body("application/json; charset=utf-8", order),
		"charset, base64": body("application/json;charset=UTF-8", []byte(want)),
		"a JSON type":     body("application/vnd.order+json", []byte(want)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(theirs(t, change).Data); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("no data", func(t *testing.T) {
		t.Parallel()
		if got := theirs(t, func(*event.Event) {}); got.Data != nil {
			t.Errorf("got %s, want none", got.Data)
		}
	})
	t.Run("attributes", func(t *testing.T) {
		t.Parallel()
		at := time.Date(2026, 12, 31, 23, 0, 0, 123456789, time.FixedZone("somewhere", -5*3600-1800))
		got := theirs(t, func(e *event.Event) {
			e.SetSubject("Tisch 4")
			e.SetTime(at)
			e.SetDataSchema("https://example.org/schema")
			for name, value := range map[string]any{
				"correlationid": "first", "causationid": "before", "traceparent": "00-trace-01", "tenantid": "north", "replyto": "/a/1", "sequence": "17",
			} {
				e.SetExtension(name, value)
			}
		})
		if got.Subject != "Tisch 4" || !got.Time.Equal(at) || got.Correlation != "first" || got.Causation != "before" ||
			got.TraceParent != "00-trace-01" || got.Tenant != "north" || got.ReplyTo != "/a/1" || got.Sequence != 17 {
			t.Errorf("got %+v", got)
		}
		if got, want := string(got.Extensions["dataschema"]), `"https://example.org/schema"`; got != want {
			t.Errorf("dataschema: got %s, want %s", got, want)
		}
	})
	t.Run("extensions", func(t *testing.T) {
		t.Parallel()
		got := theirs(t, func(e *event.Event) {
			for name, value := range map[string]any{
				"text": "eu", "number": math.MinInt32, "yes": true, "no": false, "bytes": []byte{1, 2},
				"when": time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC), "empty": "",
			} {
				e.SetExtension(name, value)
			}
		})
		for name, want := range map[string]string{
			"text": `"eu"`, "number": "-2147483648", "yes": "true", "no": "false", "bytes": `"AQI="`, "when": `"2026-12-24T18:00:00Z"`, "empty": `""`,
		} {
			if got := string(got.Extensions[name]); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		// The extensions are still there when the message is written with its history.
		var again event.Event
		got.Attempts = 1
		must(t, json.Unmarshal(mustEncode(t, got), &again), again.Validate())
		if again.Extensions()["number"] != int32(math.MinInt32) || again.Extensions()["yes"] != true || again.Extensions()["text"] != "eu" {
			t.Errorf("rewritten: got %v", again.Extensions())
		}
	})
}
