package operator

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// Doctor names a process that keeps all others from writing. It takes its time for that only where somebody writes.
func TestDoctorNamesAProcessThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		x.publish(t)
		x.file = filepath.Join(t.TempDir(), "r.db")
		took := func(args ...string) (out string, d time.Duration) {
			begin := time.Now()
			_, out, _ = x.do(t, "", args...)
			return out, time.Since(begin)
		}
		if out, d := took("doctor"); d > time.Second || strings.Contains(out, "written") {
			t.Errorf("where nobody writes it took %v and printed\n%s", d, out)
		}
		release := boottest.HoldWrites(t, x.file)
		out, _ := took("doctor")
		contains(t, "doctor", out, "WRONG nothing can be written to "+x.file+": process ", "has been in a transaction for 10s", "kill -CONT PID")
		time.AfterFunc(5*time.Second, release)
		if out, d := took("doctor"); d < 4*time.Second || d > 6*time.Second || strings.Contains(out, "written") {
			t.Errorf("where a long transaction ends it took %v and printed\n%s", d, out)
		}
	})
}
