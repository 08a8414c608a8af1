package storagetest

import (
	"errors"
	"regexp"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

func inspectTests() []test {
	return []test{
		{"each fault has a name, a text and a fix", inspectIsWhole},
		{"after Close", inspectClosed},
	}
}

func inspectIsWhole(t *check) {
	faults, err := t.s.Inspect(t.ctx)
	t.ok(err)
	seen := map[string]bool{}
	for _, f := range faults {
		if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(f.Name) || seen[f.Name] {
			t.Errorf("a fault has the name %q; want letters and hyphens, each name once", f.Name)
		}
		if f.Text == "" || f.Fix == "" || strings.ContainsAny(f.Text+f.Fix, "\r\n") {
			t.Errorf("fault %s: got text %q and fix %q, want one line each", f.Name, f.Text, f.Fix)
		}
		seen[f.Name] = true
	}
}

func inspectClosed(t *check) {
	s := t.own()
	if s.Driver().Inspector() == nil {
		t.leaveOut("nothing tells of the engine")
	}
	t.ok(s.Close())
	if faults, err := s.Inspect(t.ctx); len(faults) > 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("got %v, %v; want %v", faults, err, storage.ErrUnavailable)
	}
}
