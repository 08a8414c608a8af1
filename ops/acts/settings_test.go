package acts

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
)

// A set that is stopped before it has written anything says so. One that is forced says what nobody does any more.
func TestWhatASignalLeavesOfASet(t *testing.T) {
	t.Parallel()
	c := &act.Call{Desk: &act.Desk{Program: act.Program{Command: "millrace"}}}
	in := &settingsInput{name: "hall", set: &settings.Patch{Force: true}}
	worldtest.Want(t, "nothing", interrupted(c, in, 0).Error(), "settings set: stopped by a signal; nothing was changed")
	if got, want := interrupted(c, in, 7).Error(), "Version 7 goes on without this command: it comes into force when all programs have answered, and none is passed over any more."; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
