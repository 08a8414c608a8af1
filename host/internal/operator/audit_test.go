package operator

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/audit"
)

// The audit log has what an operator changes, with who, why and the result. It has neither dry runs nor acts that only
// read.
func TestAuditList(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	contains(t, "empty", x.want(t, 0, "", "audit", "list"), "Nobody has changed anything.")
	x.want(t, 0, "", "queues", "pause", "wishes", "lists", "-why", "no budget", "-for", "30m")
	x.want(t, 0, `{"for":"ada","items":["a secret"]}`, "send", "stranger.wish.v1", "-")
	x.want(t, 2, "", "queues", "pause", "nope", "-why", "x", "-by", "bob")
	x.want(t, 0, "", "queues", "purge", "wishes", "-why", "x", "-dry-run")
	x.want(t, 0, "", "queues", "list")
	got := jsonLines[audit.Entry](t, result{out: x.want(t, 0, "", "audit", "list", "-json")})
	if len(got) != 3 {
		t.Fatalf("got %+v", got)
	}
	pause, send, failed := got[2], got[1], got[0]
	if pause.Act != "queues pause" || pause.On != "wishes lists --for 30m" || pause.Who != author() || pause.Said || pause.Why != "no budget" || pause.From == "" || !strings.HasPrefix(pause.Result, `2 told; Queue "lists" is paused`) || pause.Failed {
		t.Errorf("pause: got %+v", pause)
	}
	if send.Act != "send" || send.On != "stranger.wish.v1 '…'" || !send.Done() || strings.Contains(send.Result, "secret") {
		t.Errorf("send: got %+v", send)
	}
	if failed.Who != "bob" || !failed.Said || !failed.Failed || !strings.Contains(failed.Result, `unknown queue "nope"`) {
		t.Errorf("failed: got %+v", failed)
	}
	out := x.want(t, 0, "", "audit", "list")
	contains(t, "for people", out, "WHEN WHO FROM ACT WHY RESULT", " ago bob? "+pause.From+" queues pause nope x unknown queue", "queues pause wishes lists --for 30m no budget 2 told")
	contains(t, "of one", x.want(t, 0, "", "audit", "list", "-who", "bob", "-limit", "1"), "bob?")
	contains(t, "a limit", x.want(t, 0, "", "audit", "list", "-limit", "1"), "Note: There are more: --limit 2 shows them.")
}
