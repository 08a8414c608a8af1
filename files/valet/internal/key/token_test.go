package key

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// some is a token with something in each field.
func some() Token {
	return Token{
		Verb: ToRead, Until: time.Unix(1_800_000_000, 0).UTC(), ID: uuid.MustParse("0190163d-8694-739b-aea5-966c26f8ad91"), Owner: DigestOf("ada"),
		Uses: 3, Part: 7, Size: 1 << 30, File: "menu/0190163d-8694-739b-aea5-966c26f8ad91", Mark: "inline", Holder: "ada",
	}
}

func aSecret(id string) secret {
	return secret{ID: id, Secret: []byte(strings.Repeat(id[:1], secretSize))}
}

func wantForged(t *testing.T, what, text string, s secret) {
	t.Helper()
	if got, err := verify(text, s); !errors.Is(err, ErrForged) {
		t.Errorf("%s: got %+v, %v", what, got, err)
	}
}

// A text that differs in one byte from that of a key is no key, whichever byte takes its place.
func TestEachByteOfAKeyCounts(t *testing.T) {
	t.Parallel()
	s := aSecret("aaaaaaaa")
	text := some().text(s)
	if got, err := verify(text, s); err != nil || got != some() {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i := range len(text) {
		for c := range 256 {
			if b := []byte(text); byte(c) != b[i] {
				b[i] = byte(c)
				if strings.HasPrefix(string(b), "v1.aaaaaaaa.") { // else another secret is asked for, or none
					wantForged(t, "a byte differs", string(b), s)
				}
			}
		}
		wantForged(t, "a byte is missing", text[:i]+text[i+1:], s)
		for _, more := range []string{"\n", "\r", "=", "A", ".", " ", "\x00"} {
			wantForged(t, "a byte more", text[:i]+more+text[i:], s)
		}
	}
	for _, more := range []string{"\n", "\r\n", "=", "==", "A", ".", ".x", " ", "%0A"} {
		wantForged(t, "bytes at the end", text+more, s)
	}
}

// Of what a key says and its MAC, none counts with those of another key, version or secret.
func TestPiecesOfKeys(t *testing.T) {
	t.Parallel()
	s, other := aSecret("aaaaaaaa"), aSecret("bbbbbbbb")
	more := some()
	more.Uses = 0
	piece := func(of Token, s secret, i int) string { return strings.Split(of.text(s), ".")[i] }
	long := some()
	long.Holder = strings.Repeat("x", mostText)
	payload, sum := piece(some(), s, 2), piece(some(), s, 3)
	for what, text := range map[string]string{
		"payload of another":      "v1.aaaaaaaa." + piece(more, s, 2) + "." + sum,
		"MAC of another secret":   "v1.aaaaaaaa." + payload + "." + piece(some(), other, 3),
		"another secret's name":   "v1.bbbbbbbb." + payload + "." + sum,
		"another version":         "v2.aaaaaaaa." + payload + "." + sum,
		"no MAC":                  "v1.aaaaaaaa." + payload + ".",
		"half a MAC":              "v1.aaaaaaaa." + payload + "." + sum[:11],
		"payload and MAC swapped": "v1.aaaaaaaa." + sum + "." + payload,
		"nothing":                 "",
		"dots":                    "...",
		"too long":                long.text(s),
		"another alphabet":        "v1.aaaaaaaa." + payload + "." + base64.RawStdEncoding.EncodeToString([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
	} {
		wantForged(t, what, text, s)
	}
}

// A signed payload that is no token, as of an older program, is an error and no panic.
func TestSignedRubbish(t *testing.T) {
	t.Parallel()
	s := aSecret("aaaaaaaa")
	sign := func(payload []byte) string {
		signed := "v1.aaaaaaaa." + base64.RawURLEncoding.EncodeToString(payload)
		return signed + "." + base64.RawURLEncoding.EncodeToString(mac(s, signed))
	}
	good := some().payload()
	for n := range fixed {
		wantForged(t, "a payload that is cut off", sign(good[:n]), s)
	}
	wantForged(t, "a text that is cut off", sign(good[:fixed+1]), s)
	if _, err := verify(sign(good), s); err != nil {
		t.Error(err)
	}
}

// Any text is read without a panic, and only what was signed is taken.
func FuzzRead(f *testing.F) {
	s := aSecret("aaaaaaaa")
	good := some().text(s)
	for _, text := range []string{"", "v1", "v1...", "v1.aaaaaaaa..", good, good + "\n", good + "=", strings.Repeat(".", 3000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := verify(text, s)
		if err != nil {
			if !errors.Is(err, ErrForged) || got != (Token{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		if again := got.text(s); again != text {
			t.Fatalf("%q is taken, and says %+v, whose text is %q", text, got, again)
		}
	})
}

// A token comes back from its text, whatever it says, and none comes from a text with one bit changed.
func FuzzSign(f *testing.F) {
	f.Add(byte('r'), int64(1_800_000_000), []byte("0123456789abcdef"), uint16(1), uint16(2), uint32(3), "menu/x", "inline", "ada", uint16(99))
	f.Add(byte(0), int64(-1), []byte{}, uint16(0), uint16(0), uint32(0), "", "\n", "", uint16(0))
	f.Fuzz(func(t *testing.T, verb byte, until int64, id []byte, uses, part uint16, size uint32, file, mark, holder string, bit uint16) {
		if len(file)+len(mark)+len(holder) > 1000 {
			return
		}
		in := Token{Verb: Verb(verb), Until: time.Unix(until, 0).UTC(), Owner: DigestOf(file), Uses: uses, Part: part, Size: size, File: file, Mark: mark, Holder: holder}
		copy(in.ID[:], id)
		s := aSecret("aaaaaaaa")
		text := in.text(s)
		if out, err := verify(text, s); err != nil || out != in {
			t.Fatalf("got %+v, %v, want %+v", out, err, in)
		}
		b := []byte(text)
		b[int(bit/8)%len(b)] ^= 1 << (bit % 8)
		if out, err := verify(string(b), s); err == nil {
			t.Fatalf("one bit changed, and it is taken: %+v", out)
		}
	})
}
