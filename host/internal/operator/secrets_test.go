package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/worker"
)

// paid is the state of a plan with a secret.
type paid struct {
	ID   string `json:"id"`
	Card string `json:"card" millrace:"secret"`
	From string `json:"from"`
}

// Law: a secret in the state of a process is in no answer, whoever asks and why.
func TestLawStatesKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, "")
	x := &stranger{World: worldtest.NewBare(t, store, handlers.Config{}, process.Route("pay"))}
	plan := process.Version(1, func(p *process.Plan[paid]) {
		process.Then(p, "car", func(s paid) paid { return s })
	})
	if err := process.Register(x.Registry, "pay", plan); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "shop", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	if err := process.Open[paid](x.Channels, "pay").Start(t.Context(), "p1", paid{ID: "p1", Card: "4111-xyzzy", From: "Kraków"}); err != nil {
		t.Fatal(err)
	}
	hidden := func(args ...string) string {
		t.Helper()
		out := x.want(t, 0, "", append(args, "-json", "-reveal", "-why", "x")...)
		if strings.Contains(out, "xyzzy") {
			t.Errorf("%v shows a secret:\n%s", args, out)
		}
		return out
	}
	var first struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(x.want(t, 0, "", "queues", "peek", "pay", "-json")), &first); err != nil {
		t.Fatal(err)
	}
	if out := hidden("messages", "show", "pay", first.ID); !strings.Contains(out, `"state":"(secret)"`) {
		t.Errorf("got %s", out)
	}
	stop, ctx := x.World.Start(worker.Config{}), t.Context()
	for _, err := process.Open[paid](x.Channels, "pay").Get(ctx, "p1"); err != nil; _, err = process.Open[paid](x.Channels, "pay").Get(ctx, "p1") {
		_ = worldtest.Pause(ctx, time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if out := hidden("processes", "show", "p1"); !strings.Contains(out, "Kraków") || !strings.Contains(out, "(secret)") {
		t.Errorf("got %s", out)
	}
	if out := hidden("values", "show", "pay", "p1"); !strings.Contains(out, "(secret)") {
		t.Errorf("got %s", out)
	}
}
