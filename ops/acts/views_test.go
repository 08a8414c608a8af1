package acts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
)

// A deaf sink hears nothing.
type deaf struct{ act.Sink }

func (deaf) Begin(string, int) act.Progress { return still{} }
func (deaf) End() error                     { return nil }

// A still progress shows nothing.
type still struct{}

func (still) Add(int) {}
func (still) End()    {}

// Law: an error of the code that rebuilds a view may tell of documents. So the error is shown by its shape, unless
// somebody reveals it. The audit log never has the text.
func TestLawARebuildTellsNoContent(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	ada := errors.New("Ada's order has no lines")
	fails := func(context.Context, *channel.Channels) error { return ada }
	desk, err := act.Open(t.Context(), s, act.Program{Rebuild: map[string]act.Rebuild{"totals": {From: "orders", Clear: fails,
		Run: func(ctx context.Context, c *channel.Channels) (int, error) { return 0, fails(ctx, c) }}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range []map[string]string{{}, {"clear": "true"}, {"reveal": "true", "why": "she asks"}} {
		r := rebuildAct().Request()
		given["view"] = "totals"
		for name, text := range given {
			if err := r.Field(name).Set(text); err != nil {
				t.Fatal(err)
			}
		}
		err := r.Do(t.Context(), act.NewCall(desk, "bob", deaf{}))
		worldtest.WantErr(t, err, ada)
		if told := strings.Contains(err.Error(), "Ada"); told != (given["reveal"] != "") {
			t.Errorf("%v: told %v", given, err)
		}
	}
	for e, err := range audit.Of(s).List(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)) {
		if err != nil || !e.Failed || !strings.Contains(e.Result, "hidden text of 24 characters (#") {
			t.Errorf("the log has %+v, %v", e, err)
		}
	}
}
