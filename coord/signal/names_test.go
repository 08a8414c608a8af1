package signal

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "A", false},
		{"a", "ab", false},
		{"ab", "a", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"a.b", "a.b", true},
		{"*", "a", true},
		{"*", "a.b", false},
		{"a.*", "a", false},
		{"a.*", "a.b", true},
		{"a.*", "a.b.c", false},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.b.d.c", false},
		{"a.*.c", "a.c", false},
		{"*.b", "a.b", true},
		{"*.*", "a.b", true},
		{"*.*", "a", false},
		{">", "a", true},
		{">", "a.b.c", true},
		{"a.>", "a", false},
		{"a.>", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "b.c", false},
		{"*.>", "a", false},
		{"*.>", "a.b.c", true},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("pattern %s, name %s: got %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"a": true, "orders.eu.paid": true, "A-b_9.0": true, "-": true, strings.Repeat("x", MaxName): true,
		"": false, ".": false, ".a": false, "a.": false, "a..b": false, "a b": false, "a/b": false, "ä": false, "a\xff": false,
		"*": false, "a.>": false, "a\n": false, strings.Repeat("x", MaxName+1): false,
	} {
		err := checkName(name)
		if (err == nil) != good {
			t.Errorf("name %q: got %v, want good=%v", name, err, good)
		}
		if err != nil && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "joined by dots, 200 bytes at most")) {
			t.Errorf("name %q: the error %q doesn't say what is allowed", name, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, good := range map[string]bool{
		"a": true, "*": true, ">": true, "a.*.b": true, "a.>": true, "*.*.>": true, strings.Repeat("x", MaxName): true,
		"": false, "a.": false, "a*": false, "*a": false, "**": false, ">.a": false, "a.>.b": false, "a>": false, "a..*": false,
		strings.Repeat("x", MaxName+1): false,
	} {
		err := checkPatterns([]string{pattern})
		if (err == nil) != good {
			t.Errorf("pattern %q: got %v, want good=%v", pattern, err, good)
		}
		if err != nil && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "may be *, and the last one may be >")) {
			t.Errorf("pattern %q: the error %q doesn't say what is allowed", pattern, err)
		}
	}
}

// All faults come at once.
func TestPatternsAreCounted(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 patterns; want 1 to 64", 64: "", 65: "65 patterns; want 1 to 64"} {
		err := checkPatterns(make([]string, n))
		switch {
		case want != "" && !strings.Contains(err.Error(), want):
			t.Errorf("%d patterns: got %v, want %q in it", n, err, want)
		case n > 0 && strings.Count(err.Error(), `pattern ""`) != n:
			t.Errorf("%d empty patterns: got %v, want a fault for each", n, err)
		}
	}
}

// A pattern means the same as the regular expression that says it in other words.
func FuzzMatches(f *testing.F) {
	f.Add("a.*.>", "a.b.c.d")
	f.Add("*", "a.b")
	f.Add("a.>", "a")
	f.Add("*.a.*", "a.a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if checkPatterns([]string{pattern}) != nil || checkName(name) != nil {
			return
		}
		words := strings.NewReplacer(".", `\.`, "*", `[^.]+`, ">", `.+`).Replace(pattern)
		if got, want := matches(pattern, name), regexp.MustCompile("^"+words+"$").MatchString(name); got != want {
			t.Errorf("pattern %s, name %s: got %v, want %v", pattern, name, got, want)
		}
	})
}
