package wire_test

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/internal/wire"
)

// normal removes differences that encoding makes on purpose: time zones, escapes, and long or unprintable last errors.
func normal(e wire.Envelope) wire.Envelope {
	e.Time, e.FirstFailed, e.LastError = e.Time.UTC(), e.FirstFailed.UTC(), ""
	if len(e.Extensions) == 0 {
		e.Extensions = nil
	}
	for k, v := range e.Extensions {
		v = v.Clone()
		_ = v.Format() // invalid JSON stays, and is found to differ
		e.Extensions[k] = v
	}
	return e
}

func FuzzDecode(f *testing.F) {
	full := fullEnvelope()
	b, err := full.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	deep := func(n int) string {
		return members("data_base64", quoted(base64.StdEncoding.EncodeToString([]byte(nested(n)))))
	}
	for _, s := range []string{
		members(), "null", "{}", "[]", "", members("data", `{ "a" : "\u003c" }`), members("data_base64", `"MQ=="`), members("data", "null"),
		members("dataref", quoted(someClaim)), members("time", `"2026-12-24T18:00:00.5+02:00"`), members("time", `"9999-12-31T23:59:59-01:00"`),
		members("sequence", `"99999999999999999999"`), members("region", `"\u0065u"`), members("priority", "1e400"), members("region", "null"),
		members("lasterror", `"\u0000\ud83c\udf72"`), members("attempts", "-0"), members("id", `"\u00e9"`), members("replyto", `"\u00e9"`), members("replyto", `"\u0007"`), members() + " x",
		deep(9_999), deep(10_000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := wire.Decode(body)
		if err != nil {
			if !reflect.DeepEqual(first, wire.Envelope{}) {
				t.Fatalf("got %+v with error %v", first, err)
			}
			return
		}
		b, err := first.Encode()
		if err != nil {
			t.Fatalf("decoded, but can't be encoded: %v\n%+v", err, first)
		}
		second, err := wire.Decode(b)
		if err != nil {
			t.Fatalf("encoded, but can't be decoded: %v\n%s", err, b)
		}
		if got, want := normal(second), normal(first); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		again, err := second.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if third, err := wire.Decode(again); err != nil || !reflect.DeepEqual(third, second) && !reflect.DeepEqual(normal(third), normal(second)) || third.LastError != second.LastError {
			t.Fatalf("not stable (error %v):\n%s\n%s", err, b, again)
		}
	})
}

// An envelope without extensions is encoded by other code than one with them, to the same bytes.
func FuzzEncode(f *testing.F) {
	f.Add("1", "/web", "4", "north", "failed", int64(1e18), uint64(17), 2, []byte(`{"table":4}`))
	f.Add("ü €", "urn:a:b", "<b>&\u2028\"", "\xff", "\x00\U0001f372", int64(-1), uint64(0), 0, []byte(`{"a":1,"a":2}`))
	f.Add("1", "/\xff", "", "", "\xff", int64(0), uint64(1<<64-1), -1, []byte(`{ "a" : "\u003c" }`))
	f.Add("1", "/a b", "", "", "", int64(0), uint64(0), 0, []byte(`x`))
	f.Add("1", "/web", "", "", "", int64(0), uint64(0), 0, []byte{})
	for _, depth := range []int{9_999, 10_000} {
		f.Add("1", "/web", "", "", "", int64(0), uint64(0), 0, slices.Concat(bytes.Repeat([]byte("["), depth), bytes.Repeat([]byte("]"), depth)))
	}
	f.Fuzz(func(t *testing.T, id, source, subject, tenant, last string, at int64, sequence uint64, attempts int, data []byte) {
		e := wire.Envelope{
			ID: id, Source: source, Kind: wire.Kind("k" + last), Subject: subject, Time: time.Unix(0, at), Tenant: tenant, ReplyTo: subject, TraceParent: last, Causation: tenant, Correlation: last,
			Sequence: sequence, Attempts: attempts, Hangs: attempts, HandBacks: attempts, Hops: attempts, Due: time.Unix(at, 1), Since: time.Unix(0, at), LastError: last, FirstFailed: time.Unix(at, 0), Data: data,
		}
		if e.Kind.Check() != nil {
			e.Kind = "k"
		}
		if at == 0 {
			e.Time, e.FirstFailed, e.Due, e.Since = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		}
		if sequence%5 == 1 {
			e.Data, e.DataRef = nil, someClaim
		}
		got, err := e.Encode()
		e.Extensions = map[string]jsontext.Value{"zz": jsontext.Value("0")}
		want, err2 := e.Encode()
		want = bytes.Replace(want, []byte(`,"zz":0`), nil, 1)
		if (err == nil) != (err2 == nil) || !bytes.Equal(got, want) {
			t.Errorf("got  %s (error %v)\nwant %s (error %v)", got, err, want, err2)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	e := benchEnvelope()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	e := benchEnvelope()
	body, err := e.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func benchEnvelope() wire.Envelope {
	id := timedID
	return wire.Envelope{
		ID: id, Source: "/web", Kind: "reservations.make.v1", Time: time.Now(),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Data:        []byte(`{"id":"0190b6a2-7b1c-7def-8123-456789abcdef","date":"2026-12-24","name":"Ada Lovelace","email":"ada@example.org","quantity":4}`),
	}
}
