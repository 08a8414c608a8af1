package wire_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

const someClaim = "claims/orders/0190b6a2-7b1c-7def-8123-456789abcdef"

func fullEnvelope() wire.Envelope {
	return wire.Envelope{
		ID: "0190b6a2-7b1c-7def-8123-456789abcdef", Source: "/capacity/2026-12-24", Kind: "test.served.v1", Subject: "2026-12-24",
		Time: time.Date(2026, 12, 1, 18, 30, 0, 123456789, time.UTC), Data: []byte(`{"table":4,"menu":"<Gänse> \"1\""}`),
		Correlation: "first", Causation: "before", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Tenant: "north", ReplyTo: "/booking/7/1?step=\"hotel\"", Sequence: 17,
		Due: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), Since: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		Retried: "0190b6a2-7b1c-7def-8123-456789abcdef", Attempts: 2, Hangs: 1, HandBacks: 3, Hops: 4, LastError: "no \"oven\"", FirstFailed: time.Date(2026, 12, 1, 18, 31, 0, 0, time.UTC),
		Extensions: map[string]jsontext.Value{
			"priority": jsontext.Value("3"), "region": jsontext.Value(`"eu"`), "sampled": jsontext.Value("true"),
		},
	}
}

func mustEncode(t testing.TB, e wire.Envelope) []byte {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"1", timedID, "cancel:17", "Tisch 4 / ü", "../..", strings.Repeat("é", 64), "'; drop", "\u00a0", "🍲"} {
		if err := wire.CheckID(id); err != nil {
			t.Errorf("ID %q: got error %v", id, err)
		}
	}
	for _, id := range []string{"", "\x00", "a\nb", "a\x1f", "\x7f", "\u0080", "\u009f", "\xff", "a\xc3", strings.Repeat("a", 129), strings.Repeat("é", 65)} {
		if err := wire.CheckID(id); err == nil {
			t.Errorf("ID %q: got no error", id)
		}
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	t.Parallel()
	claimed := fullEnvelope()
	claimed.Data, claimed.DataRef = nil, someClaim
	for name, want := range map[string]wire.Envelope{
		"full":          fullEnvelope(),
		"claim-checked": claimed,
		"least":         {ID: "1", Source: "/web", Kind: "k"},
		"urgent":        {ID: "1", Source: "/web", Kind: "k", Tenant: "north", Priority: "high"},
		"null body":     {ID: "1", Source: "/web", Kind: "k", Data: []byte("null")},
		"text body":     {ID: "1", Source: "/web", Kind: "k", Data: []byte(`"a"`)},
		"largest count": {ID: "1", Source: "/web", Kind: "k", Sequence: 1<<64 - 1},
		"URI source":    {ID: "ü €", Source: "https://example.org/a%20b?c=d#e", Kind: "k-1.x", Subject: "Tisch 4/ä"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.Decode(mustEncode(t, want))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// The wire form has the members that CloudEvents demands, and no others.
func TestEnvelopeWire(t *testing.T) {
	t.Parallel()
	e := fullEnvelope()
	e.Extensions = map[string]jsontext.Value{"region": jsontext.Value(`"eu"`)}
	want := `{"specversion":"1.0","id":"0190b6a2-7b1c-7def-8123-456789abcdef","source":"/capacity/2026-12-24",` +
		`"type":"test.served.v1","subject":"2026-12-24","time":"2026-12-01T18:30:00.123456789Z","due":"2027-01-01T00:00:00Z","since":"2026-11-30T00:00:00Z","datacontenttype":"application/json",` +
		`"correlationid":"first","causationid":"before","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",` +
		`"tenantid":"north","replyto":"/booking/7/1?step=\"hotel\"","sequence":"00000000000000000017","retried":"0190b6a2-7b1c-7def-8123-456789abcdef","attempts":2,"hangs":1,"handbacks":3,"hops":4,"lasterror":"no \"oven\"",` +
		`"firstfailed":"2026-12-01T18:31:00Z","data":{"table":4,"menu":"<Gänse> \"1\""},"region":"eu"}`
	if got := string(mustEncode(t, e)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	least := wire.Envelope{ID: "1", Source: "/web", Kind: "k"}
	want = `{"specversion":"1.0","id":"1","source":"/web","type":"k","datacontenttype":"application/json"}`
	if got := string(mustEncode(t, least)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEnvelopeTimeZones(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("somewhere", -5*3600-1800)
	at := time.Date(2026, 12, 31, 23, 0, 0, 5, zone)
	b := mustEncode(t, wire.Envelope{ID: "1", Source: "/web", Kind: "k", Time: at, FirstFailed: at})
	if want := `"2027-01-01T04:30:00.000000005Z"`; strings.Count(string(b), want) != 2 {
		t.Errorf("got %s, want the times as %s", b, want)
	}
	e, err := wire.Decode([]byte(`{"specversion":"1.0","id":"1","source":"/web","type":"k","time":"2026-12-31T23:00:00-05:30"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := at.Truncate(time.Second); !e.Time.Equal(want) {
		t.Errorf("got time %v, want %v", e.Time, want)
	}
}

// members makes an envelope's JSON from the smallest one, with members replaced, added or (value "") left out.
func members(changes ...string) string {
	names := []string{"specversion", "id", "source", "type"}
	values := map[string]string{"specversion": `"1.0"`, "id": `"1"`, "source": `"/web"`, "type": `"test.order.v1"`}
	for i := 0; i < len(changes); i += 2 {
		if _, ok := values[changes[i]]; !ok {
			names = append(names, changes[i])
		}
		values[changes[i]] = changes[i+1]
	}
	var b strings.Builder
	for _, n := range names {
		if values[n] != "" {
			fmt.Fprintf(&b, ",%q:%s", n, values[n])
		}
	}
	return "{" + b.String()[1:] + "}"
}

func quoted(s string) string { return `"` + s + `"` }

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		want       error
	}{
		{"nothing", "", wire.ErrMalformed},
		{"space", " \n", wire.ErrMalformed},
		{"text", "order", wire.ErrMalformed},
		{"half", `{"specversion":"1.0"`, wire.ErrMalformed},
		{"list", "[" + members() + "]", wire.ErrMalformed},
		{"number", "1", wire.ErrMalformed},
		{"trailing text", members() + "x", wire.ErrMalformed},
		{"trailing object", members() + members(), wire.ErrMalformed},
		{"trailing comma", `{"specversion":"1.0","id":"1","source":"/web","type":"k",}`, wire.ErrMalformed},
		{"duplicate attribute", `{"specversion":"1.0","id":"1","id":"2","source":"/web","type":"k","datacontenttype":"application/json"}`, wire.ErrMalformed},
		{"duplicate extension", `{"specversion":"1.0","id":"1","source":"/web","type":"k","a":1,"a":2}`, wire.ErrMalformed},
		{"duplicate in data", members("data", `{"a":1,"a":2}`), wire.ErrMalformed},
		{"invalid UTF-8 in an attribute", members("subject", "\"\xff\""), wire.ErrMalformed},
		{"invalid UTF-8 in data", members("data", "\"\xff\""), wire.ErrMalformed},
		{"lone surrogate", members("subject", `"\ud800"`), wire.ErrMalformed},
		{"zero byte", members() + "\x00", wire.ErrMalformed},
		{"deep", members("data", nested(20_000)), wire.ErrMalformed},
		{"number for an ID", members("id", "1"), wire.ErrMalformed},
		{"bad time", members("time", `"yesterday"`), wire.ErrMalformed},
		{"time without zone", members("time", `"2026-12-24T18:00:00"`), wire.ErrMalformed},
		{"date for a time", members("time", `"2026-12-24"`), wire.ErrMalformed},
		{"number for a time", members("time", "1766599200"), wire.ErrMalformed},
		{"text for attempts", members("attempts", `"2"`), wire.ErrMalformed},
		{"fraction of attempts", members("attempts", "1.5"), wire.ErrMalformed},
		{"huge attempts", members("attempts", "1e99"), wire.ErrMalformed},

		{"null", "null", wire.ErrSpecVersion},
		{"no specversion", members("specversion", ""), wire.ErrSpecVersion},
		{"old specversion", members("specversion", `"0.3"`), wire.ErrSpecVersion},
		{"newer specversion", members("specversion", `"1.1"`), wire.ErrSpecVersion},
		{"case of specversion", `{"SpecVersion":"1.0","id":"1","source":"/web","type":"k","datacontenttype":"application/json"}`, wire.ErrSpecVersion},

		{"no id", members("id", ""), wire.ErrAttribute},
		{"empty id", members("id", `""`), wire.ErrAttribute},
		{"null id", members("id", "null"), wire.ErrAttribute},
		{"control character in the id", members("id", `"a\nb"`), wire.ErrAttribute},
		{"long id", members("id", quoted(strings.Repeat("a", 129))), wire.ErrAttribute},
		{"no source", members("source", ""), wire.ErrAttribute},
		{"empty source", members("source", `""`), wire.ErrAttribute},
		{"space in the source", members("source", `"/my web"`), wire.ErrAttribute},
		{"bad escape in the source", members("source", `"/%zz"`), wire.ErrAttribute},
		{"bad host in the source", members("source", `"http://[::1"`), wire.ErrAttribute},
		{"control character in the source", members("source", `"/a\u0007"`), wire.ErrAttribute},
		{"long source", members("source", quoted("/"+strings.Repeat("a", 1024))), wire.ErrAttribute},
		{"no type", members("type", ""), wire.ErrAttribute},
		{"empty type", members("type", `""`), wire.ErrAttribute},
		{"upper case in the type", members("type", `"Order"`), wire.ErrAttribute},
		{"space in the type", members("type", `"an order"`), wire.ErrAttribute},
		{"digit first in the type", members("type", `"1.order"`), wire.ErrAttribute},
		{"long type", members("type", quoted(strings.Repeat("a", 101))), wire.ErrAttribute},
		{"control character in the subject", members("subject", `"a\u0000"`), wire.ErrAttribute},
		{"long subject", members("subject", quoted(strings.Repeat("a", 257))), wire.ErrAttribute},
		{"time before the calendar", members("time", `"0000-01-01T00:00:00+01:00"`), wire.ErrAttribute},
		{"time after the calendar", members("time", `"9999-12-31T23:59:59-01:00"`), wire.ErrAttribute},
		{"failed after the calendar", members("firstfailed", `"9999-12-31T23:59:59-01:00"`), wire.ErrAttribute},
		{"negative attempts", members("attempts", "-1"), wire.ErrAttribute},
		{"negative hangs", members("hangs", "-1"), wire.ErrAttribute},
		{"negative handbacks", members("handbacks", "-1"), wire.ErrAttribute},
		{"negative hops", members("hops", "-1"), wire.ErrAttribute},
		{"due after the calendar", members("due", `"9999-12-31T23:59:59-01:00"`), wire.ErrAttribute},
		{"two bodies", members("data", "1", "data_base64", `"MQ=="`), wire.ErrAttribute},
		{"null and a body", members("data", "null", "data_base64", `"MQ=="`), wire.ErrAttribute},
		{"bad base64", members("data_base64", `"%"`), wire.ErrAttribute},
		{"base64 of no JSON", members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte("hello")))), wire.ErrAttribute},
		{"deep base64", members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte(nested(10_000))))), wire.ErrAttribute},
		{"base64 of nothing", members("data_base64", `""`), wire.ErrAttribute},
		{"base64 of invalid UTF-8", members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte("\"\xff\"")))), wire.ErrAttribute},
		{"dataref and data", members("dataref", quoted(someClaim), "data", "1"), wire.ErrAttribute},
		{"dataref and data_base64", members("dataref", quoted(someClaim), "data_base64", `"MQ=="`), wire.ErrAttribute},
		{"upper case in an extension", members("Region", `"eu"`), wire.ErrAttribute},
		{"case of an attribute", members("ID", `"2"`), wire.ErrAttribute},
		{"hyphen in an extension", members("my-region", `"eu"`), wire.ErrAttribute},
		{"no name of an extension", members("", `"eu"`), wire.ErrAttribute},
		{"object for an extension", members("region", `{"a":1}`), wire.ErrAttribute},
		{"list for an extension", members("region", `[1]`), wire.ErrAttribute},

		{"text", members("datacontenttype", `"text/plain"`, "data", `"a"`), wire.ErrContentType},
		{"XML", members("datacontenttype", `"application/xml"`), wire.ErrContentType},
		{"nonsense for a content type", members("datacontenttype", `"json; ="`), wire.ErrContentType},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, err := wire.Decode([]byte(test.body))
			if !errors.Is(err, test.want) {
				t.Fatalf("got error %v, want %v", err, test.want)
			}
			for _, other := range []error{wire.ErrMalformed, wire.ErrSpecVersion, wire.ErrAttribute, wire.ErrContentType, storage.ErrTooLarge} {
				if other != test.want && errors.Is(err, other) {
					t.Errorf("error %v matches %v too", err, other)
				}
			}
			if !reflect.DeepEqual(e, wire.Envelope{}) {
				t.Errorf("got %+v with the error", e)
			}
		})
	}
}

func TestDecodeRefusesOversized(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"data":     members("data", quoted(strings.Repeat("a", wire.MaxData))),
		"base64":   members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte(quoted(strings.Repeat("a", wire.MaxData)))))),
		"anything": strings.Repeat("x", 40<<20),
	} {
		if _, err := wire.Decode([]byte(body)); !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("%s: got error %.200v, want %v", name, err, storage.ErrTooLarge)
		}
	}
}

func TestDecodeTolerates(t *testing.T) {
	t.Parallel()
	least := wire.Envelope{ID: "1", Source: "/web", Kind: "test.order.v1"}
	with := func(f func(*wire.Envelope)) wire.Envelope { e := least; f(&e); return e }
	body := func(s string) wire.Envelope { return with(func(e *wire.Envelope) { e.Data = []byte(s) }) }
	extension := func(name, value string) wire.Envelope {
		return with(func(e *wire.Envelope) { e.Extensions = map[string]jsontext.Value{name: jsontext.Value(value)} })
	}
	for _, test := range []struct {
		name, body string
		want       wire.Envelope
	}{
		{"space", " " + members() + "\n", least},
		{"other order", `{"type":"test.order.v1","source":"/web","id":"1","specversion":"1.0"}`, least},
		{"escapes", `{"\u0069d":"1","source":"\/web","type":"test\u002eorder.v1","specversion":"1.0"}`, least},
		{"nulls for absent attributes", members("subject", "null", "time", "null", "attempts", "null", "data_base64", "null", "dataref", "null"), least},
		{"null for an extension", members("region", "null"), least},
		{"extensions", members("region", `"eu"`), extension("region", `"eu"`)},
		{"number", members("priority", `-3`), extension("priority", `-3`)},
		{"boolean", members("sampled", `false`), extension("sampled", `false`)},
		{"a schema", members("dataschema", `"https://example.org/s"`), extension("dataschema", `"https://example.org/s"`)},
		{"content type", members("datacontenttype", `"application/json"`), least},
		{"charset", members("datacontenttype", `"application/json; charset=utf-8"`), least},
		{"case of the content type", members("datacontenttype", `"Application/JSON"`), least},
		{"a JSON type", members("datacontenttype", `"application/vnd.order+json"`), least},
		{"null body", members("data", "null"), body("null")},
		{"deep base64 body", members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte(nested(9_999))))), body(nested(9_999))},
		{"base64 body", members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte(` {"table": 4} `)))), body(`{"table":4}`)},
		{"spaces in the body", members("data", `{ "table" : [ 4 , 5 ],`+"\n\t"+`"dish": "a b" }`), body(`{"table":[4,5],"dish":"a b"}`)},
		{"escapes in the body", members("data", `{"dish":"\u003cb\u003e \u00e9\/\ud83c\udf72\n\""}`), body(`{"dish":"<b> é/🍲\n\""}`)},
		{"numbers in the body", members("data", `[1.50,12345678901234567890,1E3]`), body(`[1.50,12345678901234567890,1E3]`)},
		{"sequence of words", members("sequence", `"seventh"`), least},
		{"sequence out of range", members("sequence", `"99999999999999999999"`), least},
		{"negative sequence", members("sequence", `"-1"`), least},
		{"sequence without zeros", members("sequence", `"12"`), with(func(e *wire.Envelope) { e.Sequence = 12 })},
		{"longest id", members("id", quoted(strings.Repeat("a", 128))), with(func(e *wire.Envelope) { e.ID = strings.Repeat("a", 128) })},
		{"relative source", members("source", `"web"`), with(func(e *wire.Envelope) { e.Source = "web" })},
		{"URN source", members("source", `"urn:example:web:1"`), with(func(e *wire.Envelope) { e.Source = "urn:example:web:1" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.Decode([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Extensions) == 0 {
				got.Extensions = nil
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	extension := func(name, value string) func(*wire.Envelope) {
		return func(e *wire.Envelope) { e.Extensions = map[string]jsontext.Value{name: jsontext.Value(value)} }
	}
	for _, test := range []struct {
		name   string
		change func(*wire.Envelope)
		want   error
	}{
		{"no id", func(e *wire.Envelope) { e.ID = "" }, wire.ErrAttribute},
		{"invalid UTF-8 in the id", func(e *wire.Envelope) { e.ID = "\xff" }, wire.ErrAttribute},
		{"no source", func(e *wire.Envelope) { e.Source = "" }, wire.ErrAttribute},
		{"invalid UTF-8 in the source", func(e *wire.Envelope) { e.Source = "/\xff" }, wire.ErrAttribute},
		{"no kind", func(e *wire.Envelope) { e.Kind = "" }, wire.ErrAttribute},
		{"bad subject", func(e *wire.Envelope) { e.Subject = "a\x01" }, wire.ErrAttribute},
		{"time after the calendar", func(e *wire.Envelope) { e.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, wire.ErrAttribute},
		{"negative attempts", func(e *wire.Envelope) { e.Attempts = -1 }, wire.ErrAttribute},
		{"body and reference", func(e *wire.Envelope) { e.DataRef = someClaim }, wire.ErrAttribute},
		{"foreign reference", func(e *wire.Envelope) { e.Data, e.DataRef = nil, "https://example.org/body" }, wire.ErrAttribute},
		{"upper case in an extension", extension("Region", `"eu"`), wire.ErrAttribute},
		{"attribute for an extension", extension("subject", `"x"`), wire.ErrAttribute},
		{"history for an extension", extension("attempts", `"x"`), wire.ErrAttribute},
		{"body for an extension", extension("data", `"x"`), wire.ErrAttribute},
		{"second body for an extension", extension("data_base64", `"MQ=="`), wire.ErrAttribute},
		{"object for an extension", extension("region", `{}`), wire.ErrAttribute},
		{"null for an extension", extension("region", `null`), wire.ErrAttribute},
		{"nothing for an extension", extension("region", ``), wire.ErrAttribute},
		{"no JSON for an extension", extension("region", `"eu`), wire.ErrMalformed},
		{"no JSON for a body", func(e *wire.Envelope) { e.Data = []byte("{") }, wire.ErrMalformed},
		{"invalid UTF-8 in an attribute", func(e *wire.Envelope) { e.Tenant = "\xff" }, wire.ErrMalformed},
		{"invalid UTF-8 in the reply address", func(e *wire.Envelope) { e.ReplyTo = "\xff" }, wire.ErrAttribute},
		{"control character in the reply address", func(e *wire.Envelope) { e.ReplyTo = "a\nb" }, wire.ErrAttribute},
		{"long reply address", func(e *wire.Envelope) { e.ReplyTo = strings.Repeat("a", 1025) }, wire.ErrAttribute},
		{"large body", func(e *wire.Envelope) { e.Data = make([]byte, wire.MaxData+1) }, storage.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := fullEnvelope()
			test.change(&e)
			if b, err := e.Encode(); !errors.Is(err, test.want) || b != nil {
				t.Errorf("got %d bytes and error %v, want %v", len(b), err, test.want)
			}
		})
	}
}

func TestDataRefPointsAtClaimsOnly(t *testing.T) {
	t.Parallel()
	o := newOutbox(openStore(t))
	const id = "0190b6a2-7b1c-7def-8123-456789abcdef"
	for _, ref := range []string{
		"claims/../capacity/2026-12-24", "claims/orders/../../capacity", "claims/orders/" + id + "/..", "claims//" + id,
		"capacity/orders/" + id, "/claims/orders/" + id, "claims/orders/" + id + "?x", "claims/orders/" + id + " ",
		"claims/orders/{" + id + "}", "claims/orders/urn:uuid:" + id, "claims/orders/", "claims/orders", "claims/", "claims", "x",
		"https://example.org/claims/orders/" + id, "file:///etc/passwd", "claims/Orders/" + id, "claims/or--ders/" + id,
		"claims/orders/" + strings.ReplaceAll(id, "-", ""), "claims%2forders%2f" + id,
	} {
		if _, err := wire.Decode([]byte(members("dataref", quoted(ref)))); !errors.Is(err, wire.ErrAttribute) {
			t.Errorf("decode with dataref %q: got error %v, want %v", ref, err, wire.ErrAttribute)
		}
		if err := o.FetchBody(t.Context(), &wire.Envelope{DataRef: ref}); !errors.Is(err, wire.ErrAttribute) {
			t.Errorf("fetch %q: got error %v, want %v", ref, err, wire.ErrAttribute)
		}
		if err := o.DeleteBody(t.Context(), ref); !errors.Is(err, wire.ErrAttribute) {
			t.Errorf("release %q: got error %v, want %v", ref, err, wire.ErrAttribute)
		}
	}
}

// Whatever text a failed attempt leaves, the history fits the room that is kept free for it.
func TestHistoryFits(t *testing.T) {
	t.Parallel()
	const room = 4 << 10
	bare := wire.Envelope{ID: "1", Source: "/web", Kind: "k"}
	before := len(mustEncode(t, bare))
	for _, unit := range []string{"a", `"`, "\\", "\x00", "\n", "\x7f", "\xff", "é", "🍲", "\u2028", "\u0085", "<", "a\xff"} {
		for _, n := range []int{1, 1023, 1024, 1025, 5000} {
			e := bare
			e.Attempts, e.Hangs, e.HandBacks, e.FirstFailed = 1<<31, 1<<31, 1<<31, time.Date(9999, 1, 1, 1, 1, 1, 999999999, time.UTC)
			e.LastError = strings.Repeat(unit, n)
			b := mustEncode(t, e)
			if got := len(b) - before; got > room {
				t.Errorf("%d times %q: a history of %d bytes, want at most %d", n, unit, got, room)
			}
			first, err := wire.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			again, err := wire.Decode(mustEncode(t, first))
			if err != nil || again.LastError != first.LastError {
				t.Errorf("%d times %q: shortened again to %d bytes from %d, error %v", n, unit, len(again.LastError), len(first.LastError), err)
			}
		}
	}
}

// A body keeps its bytes everywhere, because they tell whether two messages with one ID are the same.
func TestBodyKeepsItsBytes(t *testing.T) {
	t.Parallel()
	raw := struct {
		Raw json.Marshaler
		S   string
	}{S: "<a>&\u2028 é\n\" \ufffd"}
	body, err := wire.EncodeBody(raw)
	if err != nil {
		t.Fatal(err)
	}
	e := wire.Envelope{ID: "1", Source: "/web", Kind: "k", Data: body}
	for range 3 {
		if e, err = wire.Decode(mustEncode(t, e)); err != nil {
			t.Fatal(err)
		}
		if got, want := string(e.Data), string(body); got != want {
			t.Fatalf("got body %s, want %s", got, want)
		}
	}
	kept, err := json.Marshal(map[string]jsontext.Value{"kept": jsontext.Value(body)}) // as documents keep it
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kept":` + string(body) + `}`; string(kept) != want {
		t.Errorf("in a document: got %s, want %s", kept, want)
	}
}

// A message from elsewhere may have no correlation. Then it is the first of its chain.
func TestFollowTheFirst(t *testing.T) {
	t.Parallel()
	var e wire.Envelope
	e.Follow(&wire.Envelope{ID: "1"})
	if e.Correlation != "1" || e.Causation != "1" {
		t.Errorf("got %+v, want correlation and causation 1", e)
	}
}
