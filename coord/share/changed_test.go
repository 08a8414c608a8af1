package share_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/share"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// A process whose Changed panics is logged, and shares as before.
func TestAChangedThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := worldtest.NewLog()
		r, err := share.NewRate(worldtest.OpenStore(t, worldtest.Virtual), "smtp", 50, share.Config{Logger: slog.New(log), Changed: func() { panic("made up by a test") }})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			worldtest.WantErr(t, r.Wait(t.Context()), nil)
		}
		time.Sleep(time.Hour) // it leaves
		worldtest.WantErr(t, r.Wait(t.Context()), nil)
		worldtest.WantErr(t, r.Leave(t.Context()), nil)
		if log.Count("Config.Changed panics", "panic=made up by a test") == 0 {
			t.Errorf("nothing was logged:\n%s", log)
		}
	})
}
