package valet

import (
	"slices"
	"testing"
)

// Any text is read without a panic. The result has parts of the file, each once and not too many, and the text that
// ranges writes of them means the same.
func FuzzParts(f *testing.F) {
	for _, text := range []string{"", "1", "1-3,7", "1-64", "1-65", "3-1", "1-", "-1", "1,1", "01", "+1", "1-1000000000", "٣", "1-2-3", ",", "2,1,3"} {
		f.Add(text, 100)
	}
	f.Fuzz(func(t *testing.T, text string, parts int) {
		numbers, err := parseParts(text, parts)
		if err != nil {
			if refusalOf(err).code != 400 || numbers != nil {
				t.Fatalf("got %v, %v", numbers, err)
			}
			return
		}
		if len(numbers) < 1 || len(numbers) > mostAsked {
			t.Fatalf("%q: got %d parts", text, len(numbers))
		}
		sorted := slices.Sorted(slices.Values(numbers))
		if sorted[0] < 1 || sorted[len(sorted)-1] > parts || len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
			t.Fatalf("%q: got %v of %d", text, numbers, parts)
		}
		again, err := parseParts(ranges(sorted), parts)
		if err != nil || !slices.Equal(again, sorted) || ranges(again) != ranges(sorted) {
			t.Fatalf("%q: got %v, written as %q, read as %v, %v", text, sorted, ranges(sorted), again, err)
		}
	})
}

// A list may name 64 parts, however it says that, and not one more.
func TestMostParts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1-64": 64, "1-65": 0, "1-32,33-64": 64, "1-32,33-65": 0, "1-64,64": 64, "1-64,1-64": 64, "37-100": 64, "1-64,65": 0, "100-9223372036854775807": 0} {
		if got, err := parseParts(text, 10_000); len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: got %d parts, %v", text, len(got), err)
		}
	}
}
