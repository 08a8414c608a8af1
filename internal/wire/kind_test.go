package wire_test

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/wire"
)

func TestKindCheck(t *testing.T) {
	t.Parallel()
	for _, k := range []wire.Kind{"k", "reservations.make.v1", "a-b.c", "a1", "a..b", wire.Kind(strings.Repeat("a", 100))} {
		if err := k.Check(); err != nil {
			t.Errorf("kind %q: got error %v", k, err)
		}
	}
	for _, k := range []wire.Kind{"", "A", "1a", ".a", "-a", "a b", "a_b", "a/b", "é", "a\x00", "a\n", "\xff", wire.Kind(strings.Repeat("a", 101))} {
		if err := k.Check(); err == nil {
			t.Errorf("kind %q: got no error", k)
		}
	}
}

func FuzzKind(f *testing.F) {
	for _, s := range []string{"reservations.make.v1", "", "A", "a b", "\xff", strings.Repeat("a", 101)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := wire.Envelope{ID: "1", Source: "/web", Kind: wire.Kind(s)}
		err := e.Kind.Check()
		b, encodeErr := e.Encode()
		if (err == nil) != (encodeErr == nil) {
			t.Fatalf("kind %q: check says %v, encode %v", s, err, encodeErr)
		}
		if err != nil {
			return
		}
		if !strings.Contains(string(b), `"type":"`+s+`"`) {
			t.Fatalf("kind %q is not on the wire as it is: %s", s, b)
		}
		got, err := wire.Decode(b)
		if err != nil || got.Kind != e.Kind {
			t.Fatalf("kind %q came back as %q, error %v", s, got.Kind, err)
		}
	})
}
