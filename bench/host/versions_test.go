package host

import (
	"runtime/debug"
	"testing"
)

// A version is that of a release, or the revision of the repository from which the program was built.
func TestVersions(t *testing.T) {
	t.Parallel()
	ours := &debug.Module{Path: "example.com/ours", Version: "v0.0.0", Replace: &debug.Module{Path: "../", Version: "(devel)"}}
	info := &debug.BuildInfo{
		Deps:     []*debug.Module{ours, {Path: "example.com/theirs/v4", Version: "v4.1.0"}, {Path: "example.com/other", Version: "v1.0.0"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}
	modules := []string{ours.Path, "example.com/theirs/v4"}
	if got, want := versionsIn(info, modules), "ours 0123456+changes, theirs v4.1.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	info.Settings = nil
	if got, want := versionsIn(info, modules), "ours of an unknown revision, theirs v4.1.0"; got != want {
		t.Errorf("without version control: got %q, want %q", got, want)
	}
}
