package operator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A queue that is renamed in one version of a program is known: most programs in development have no version. Nothing
// of an empty queue is told.
func TestDoctorFindsARenamedQueue(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	publish := func(queue string) *stranger {
		w := worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals}, Routes: []channel.Route{channel.Command[wish](queue)}})
		w.Decide()
		w.Project()
		handlers.React(w.Registry, worldtest.Audits, func(context.Context, worldtest.Refused) error { return nil })
		handlers.ReactOnce(w.Registry, queue, func(context.Context, wish) error { return nil })
		if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "shop"}); err != nil {
			t.Fatal(err)
		}
		return &stranger{World: w}
	}
	x := publish("wishes")
	worldtest.Send(x.World, wish{For: "ada"})
	worldtest.Send(x.World, wish{For: "bob"})
	contains(t, "as it was", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
	x = publish("hopes")
	contains(t, "renamed", x.want(t, exitWrong, "", "doctor"), "WRONG 2 messages in wishes, which nothing routes to (an earlier shop unknown did, until ", "Was the queue renamed?", "1 thing is wrong.")
	contains(t, "queues", x.want(t, 0, "", "queues"), "wishes 2 0 0 0", "in no route")
	for range 2 {
		m, err := s.Queue("wishes").Receive(t.Context(), 1, time.Minute)
		if err == nil && len(m) == 1 {
			err = s.Queue("wishes").Delete(t.Context(), []storage.Receipt{m[0].Receipt})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "empty", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
}

// Messages in a queue that no program has published are found: a web was started before its worker. Its lanes are one
// queue. A store that lists no queues is said to.
func TestDoctorFindsAQueueThatNobodyHasPublished(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	send := func(queue string, n int) {
		t.Helper()
		for range n {
			if err := s.Queue(queue).Send(t.Context(), []storage.Message{{Body: []byte("{}")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send("purchases", 3)
	send("orders-lane-2", 1)
	send("orders-high-lane-3", 1)
	send("orders-slow", 2)
	_, out, _ := x.do(t, "", "doctor")
	contains(t, "doctor", out, "WRONG 3 messages in purchases, which nothing routes to", "WRONG 4 messages in orders, which nothing routes to")
	_, out, _ = x.do(t, "", "queues", "list")
	contains(t, "queues", out, "purchases 3 0 0 0", "orders 4 0 0 0", "in no route")
	if strings.Contains(out, "-lane-") || strings.Contains(out, "-slow") {
		t.Errorf("lanes are listed by themselves:\n%s", out)
	}
	_, out, _ = x.doOn(t, storagetest.Plain(s), "", "doctor")
	contains(t, "a store that lists no queues", out, "NOTE queues of which no program tells are not looked at")
	if strings.Contains(out, "purchases") {
		t.Errorf("the store lists no queues, and doctor says\n%s", out)
	}
}

// Wrong things come before notes, and decide the exit code. Nothing of a description moves the cursor.
func TestDoctorsOutput(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	for key, body := range map[string]string{"nasty/\u202e": "junk \x1b[31m"} {
		if _, err := x.Store.Blobs("programs").Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	code, out, told := x.do(t, "", "doctor")
	if want := `WRONG  the description of nasty \u202e can't be read`; code != exitWrong || !strings.HasPrefix(out, want) || !strings.Contains(out, "\nNOTE   no program") || !strings.HasSuffix(out, "1 thing is wrong.\n") || told != "" {
		t.Errorf("got exit code %d, %q and %q", code, out, told)
	}
	code, out, _ = x.do(t, "", "doctor", "-json")
	if code != exitWrong || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"severity":"wrong","check":"catalog","program":"nasty","text":`) {
		t.Errorf("-json: got exit code %d and %s", code, out)
	}
	if err := x.Store.Blobs("programs").Delete(t.Context(), "nasty/\u202e", storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "-json"}} {
		code, out, told := x.do(t, "", args...)
		if code != exitNothing || strings.Contains(out, "Nothing is wrong") || strings.Count(out, "only poison queues") != 1 || !strings.Contains(told, "no queue is known") {
			t.Errorf("%q where no queue is known: got exit code %d, %q and %q", args, code, out, told)
		}
	}
}

// A program's own binary knows its queues before any worker has run.
func TestDoctorKnowsTheQueuesOfItsProgram(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.tool = Program{Program: act.Program{Routes: func() (*channel.Routes, error) { return x.Channels.Routes(), nil }}} // a web: it handles nothing
	contains(t, "a note alone", x.want(t, 0, "", "doctor"), "NOTE no program has published", "Nothing is wrong.")
	worldtest.Send(x.World, wish{For: "ada"})
	contains(t, "a backlog", x.want(t, exitWrong, "", "doctor"), "WRONG 1 message waits in wishes, and no worker has ever run that consumes it Start one.", "1 thing is wrong.")
	contains(t, "queues", x.want(t, 0, "", "queues"), "wishes 1 0 0 0", "s nobody")
}
