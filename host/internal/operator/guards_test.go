package operator

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
)

// Doctor finds services that are away, since when and why.
func TestDoctorFindsOpenGuards(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	putBlob(t, x.Store, "guards", "smtp", `{"epoch":3,"open":true,"ill":["a","b"],"since":"2026-11-27T12:00:00Z","why":"no route \u001b[31m"}`)
	putBlob(t, x.Store, "guards", "crm", `{"epoch":1,"ill":["a"]}`)
	putBlob(t, x.Store, "guards", "map", `{"epoch":1,"open":true,"pause":60000,"why":"429"}`)
	putBlob(t, x.Store, "guards", "bank", `{"epoch":9}`)
	putBlob(t, x.Store, "guards", "junk", `{"epoch":`)
	putBlob(t, x.Store, "shares", "rate/smtp", `{"members":{"a":{}}}`)
	putBlob(t, x.Store, "shares", "slots/smtp", `{"members":{}}`)
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"),
		"WRONG the service of guard smtp is away for all processes, since", "ago) Ask those who run the service; calls go on by themselves once it answers. Queues wait for it", "guards show smtp --reveal --why TEXT",
		"NOTE some processes can't reach the service of guard crm, and others can The metric millrace_guard_alone",
		"NOTE the service of guard map asks all processes to wait Queues wait for it",
		"WRONG the document of guard junk is damaged", "The next process that looks replaces it",
		"NOTE the document of limit rate/smtp can't be read")
	contains(t, "guards list", x.want(t, 0, "", "guards", "list", "-reveal", "-why", "x"), "NAME BREAKER SINCE WHY bank closed – – crm ill – – junk corrupt – the document can't be read", "map open – 429", "smtp open ", `no route \x1b[31m`)
	contains(t, "guards show", x.want(t, 0, "", "guards", "show", "smtp"), "Guard smtp Breaker open", "Ask those who run the service.")
	contains(t, "guards close", x.want(t, 0, "", "guards", "close", "smtp"), `Guard "smtp" is closed: its calls go on, but in processes that the service has asked to wait. It was open for `)
	contains(t, "closed already", x.want(t, 0, "", "guards", "close", "smtp"), `Guard "smtp" was closed already.`)
	got := oneLine[acts.Guard](t, x.want(t, 0, "", "guards", "close", "junk", "-json"))
	worldtest.Want(t, "result and state", got.Result+" "+got.State, "closed corrupt")
	x.want(t, 0, "", "guards", "close", "crm")
	x.want(t, 0, "", "guards", "close", "map")
	if _, out, _ := x.do(t, "", "doctor"); strings.Contains(out, "guard ") {
		t.Errorf("doctor still tells of guards: %s", out)
	}
}
