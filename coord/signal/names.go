package signal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// MaxName is how many bytes a name or a pattern has at most.
const MaxName = 200

// maxPatterns bounds how many signals a listener keeps while it waits for all patterns.
const maxPatterns = 64

// checkName refuses what is not segments joined by dots.
func checkName(name string) error {
	if !segmented(name, func(string, bool) bool { return false }) {
		return fmt.Errorf("%w: name %s: want segments of A-Z, a-z, 0-9, - and _, joined by dots, %d bytes at most",
			storage.ErrInvalid, storage.Quote(name), MaxName)
	}
	return nil
}

// checkPatterns returns all that is wrong with the patterns of a listener.
func checkPatterns(patterns []string) error {
	var faults []error
	if len(patterns) == 0 || len(patterns) > maxPatterns {
		faults = append(faults, fmt.Errorf("%w: %d patterns; want 1 to %d", storage.ErrInvalid, len(patterns), maxPatterns))
	}
	for _, p := range patterns {
		if !segmented(p, func(segment string, last bool) bool { return segment == "*" || segment == ">" && last }) {
			faults = append(faults, fmt.Errorf("%w: pattern %s: want segments of A-Z, a-z, 0-9, - and _, joined by dots, %d bytes at most; "+
				"a whole segment may be *, and the last one may be >", storage.ErrInvalid, storage.Quote(p), MaxName))
		}
	}
	return errors.Join(faults...)
}

// segmented reports that each segment is made of the letters of names, or is a wildcard.
func segmented(s string, wildcard func(segment string, last bool) bool) bool {
	if len(s) > MaxName {
		return false
	}
	for more := true; more; {
		var segment string
		segment, s, more = strings.Cut(s, ".")
		if !wildcard(segment, !more) && (segment == "" || strings.ContainsFunc(segment, notInNames)) {
			return false
		}
	}
	return true
}

func notInNames(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// matches reports that a good name fits a good pattern: segment by segment, where * is any one segment, and a last >
// is one or more.
func matches(pattern, name string) bool {
	for {
		if pattern == ">" {
			return true
		}
		p, restOfPattern, morePattern := strings.Cut(pattern, ".")
		n, restOfName, moreName := strings.Cut(name, ".")
		if p != "*" && p != n {
			return false
		}
		if !morePattern || !moreName {
			return morePattern == moreName
		}
		pattern, name = restOfPattern, restOfName
	}
}
