package operator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The program's own binary tells what a command would do, by the code that decides, and writes nothing.
func TestValuesTry(t *testing.T) {
	t.Parallel()
	var closed atomic.Bool
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if closed.Load() && !strings.HasPrefix(op.Name, "get") && !strings.HasPrefix(op.Name, "list") && !strings.HasPrefix(op.Name, "query") && !strings.HasPrefix(op.Name, "stats") {
			return errors.New("nothing may be written: " + op.Name)
		}
		return do()
	})
	x := newStranger(t, s)
	x.publish(t)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5})
	x.work(t)
	closed.Store(true)
	kind, command := string(worldtest.AddKind), `{"to":"ada","amount":3}`
	if code, _, told := x.do(t, command, "values", "try", kind, "-"); code != 2 || !strings.Contains(told, "the program's own binary has the code") {
		t.Errorf("without the code: got exit code %d and %q", code, told)
	}
	x.tool = x.own()
	shape := x.want(t, 0, command, "values", "try", kind, "-")
	contains(t, "the shape", shape, "accounts ada", "yes", string(worldtest.Added{}.Kind()), `"number"`)
	if strings.Contains(shape, "8") {
		t.Errorf("the shape tells a value: %s", shape)
	}
	closed.Store(false) // whoever sees content is noted
	try := func(command string) acts.Tried {
		t.Helper()
		return jsonLines[acts.Tried](t, result{out: x.want(t, 0, command, "values", "try", kind, "-", "-json", "-reveal", "-why", "x")})[0]
	}
	if got := try(command); !got.Changes || got.Key != "ada" || got.Collection != worldtest.Accounts || !strings.Contains(string(got.Before), "5") || !strings.Contains(string(got.After), "8") ||
		len(got.Emits) != 1 || got.Emits[0].Kind != (worldtest.Added{}).Kind() {
		t.Errorf("got %+v", got)
	}
	if got := try(`{"to":"ada","amount":-30}`); got.Changes || string(got.Before) != string(got.After) || len(got.Emits) != 1 || got.Emits[0].Kind != (worldtest.Refused{}).Kind() {
		t.Errorf("a command that is refused: got %+v", got)
	}
	if code, _, told := x.do(t, `{"to":"ada","amount":"x"}`, "values", "try", kind, "-"); code != 2 || !strings.Contains(told, "amount") {
		t.Errorf("a body that doesn't fit: got exit code %d and %q", code, told)
	}
	contains(t, "the account", x.want(t, 0, "", "values", "show", worldtest.Accounts, "ada", "-reveal", "-why", "x"), "5")
}
