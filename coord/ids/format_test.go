package ids_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{572: "572-4", 1: "1-3", 10: "10-1", 1042: "1042-9", math.MaxInt64: fmt.Sprintf("%d-%d", int64(math.MaxInt64), 4), 0: "0-0"} {
		got := ids.Format(n)
		if n == math.MaxInt64 {
			got, want = got[:len(got)-1], want[:len(want)-1] // the digit is in no book
		}
		if got != want {
			t.Errorf("Format(%d) is %q, want %q", n, got, want)
		}
	}
}

// In texts of up to five digits, check digit included, each wrong digit and each swap of neighbours is found.
func TestTheCheckDigitFindsTypingErrors(t *testing.T) {
	t.Parallel()
	tried := 0
	for n := int64(1); n < 2000; n++ {
		right := strings.Replace(ids.Format(n), "-", "", 1)
		wrong := func(digits []byte) {
			s := string(digits[:len(digits)-1]) + "-" + string(digits[len(digits)-1])
			if s == ids.Format(n) {
				return
			}
			tried++
			if got, err := ids.Parse(s); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("Parse(%q), mistyped from %q, is %d, %v", s, ids.Format(n), got, err)
			}
		}
		for i := range right {
			for d := byte('0'); d <= '9'; d++ {
				digits := []byte(right)
				digits[i] = d
				wrong(digits)
			}
			if i > 0 {
				digits := []byte(right)
				digits[i-1], digits[i] = digits[i], digits[i-1]
				wrong(digits)
			}
		}
	}
	if tried < 60_000 {
		t.Errorf("tried %d errors only", tried)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"572-4", " 572-4\n", "572\u20104", "572\u20114", "572\u20134"} {
		if n, err := ids.Parse(s); err != nil || n != 572 {
			t.Errorf("Parse(%q) is %d, %v", s, n, err)
		}
	}
	const form, digit = "want a number, a hyphen", "a digit was mistyped"
	for s, want := range map[string]string{
		"": form, "-": form, "5724": form, "572-": form, "-4": form, "572-44": form, "572--4": form, "-572-4": form, "+572-4": form,
		"No. 572-4": form, "572 -4": form, "5 72-4": form, "572-x": form, "٥٧٢-4": form, "0x1-3": form, "572\u22124": form,
		"572-5": digit, "527-4": digit, "572-0": digit,
		"0572-4": "without leading zeros", "0-0": "from 1", "00-0": "from 1",
		overflow(): "larger than 9223372036854775807", strings.Repeat("9", 500) + "-1": "",
	} {
		n, err := ids.Parse(s)
		if n != 0 || !errors.Is(err, storage.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) || len(fmt.Sprint(err)) > 300 {
			t.Errorf("Parse(%q) is %d, %v; want an error about %q", s, n, err, want)
		}
	}
}

// overflow is a number with the right check digit, but too large.
func overflow() string {
	for d := range 10 {
		s := fmt.Sprintf("9223372036854775808-%d", d)
		if _, err := ids.Parse(s); !strings.Contains(fmt.Sprint(err), "mistyped") {
			return s
		}
	}
	return ""
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"572-4", "0-0", "-1-3", "9223372036854775807-4", "1\u20113", "\x00"} {
		f.Add(s, int64(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, number int64) {
		if n, err := ids.Parse(s); err == nil {
			if back := ids.Format(n); n < 1 || len(back) > len(s) {
				t.Errorf("Parse(%q) is %d, which is written %q", s, n, back)
			}
		}
		n, err := ids.Parse(ids.Format(number))
		if number > 0 && (err != nil || n != number) || number <= 0 && err == nil {
			t.Errorf("Parse(Format(%d)) is %d, %v", number, n, err)
		}
	})
}
