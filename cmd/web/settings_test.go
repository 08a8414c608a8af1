package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
)

// A change of settings applies in a web and in a worker that run, without a restart. One that can't be right is
// refused.
func TestSettingsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	web := boottest.Start(t, bin, dir, nil, "-addr", "127.0.0.1:0", "-worker=false", "-proxies", "1", "-per-address", "100")
	url := web.URL(t)
	worker := boottest.Start(t, bin, dir, nil, "worker", "-admin", "off")
	worker.Line(t, "worker consumes")
	set := func(args ...string) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(within(t), bin, append(append([]string{"settings", "set"}, args...), "-store", "sqlite:"+filepath.Join(dir, "data", "reservations.db"))...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ask := func() (status int, policy string) {
		t.Helper()
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, url+"/reservations", strings.NewReader(fmt.Sprintf(reservation, bookable())))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("RateLimit-Policy")
	}
	if status, policy := ask(); status != http.StatusAccepted || policy != "" && !strings.Contains(policy, "q=100;") {
		t.Errorf("before: got %d and the policy %s", status, policy)
	}
	if out, err := set("perAddress=1", "log=debug", "queues.mails.concurrency=7"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	worker.Line(t, `"concurrency":7`)
	web.Line(t, `"settings changed"`)
	status, policy := ask()
	if again, policy2 := ask(); again != http.StatusTooManyRequests || !strings.Contains(policy2, `"per-address";q=1;w=60`) {
		t.Errorf("after: got %d and then %d with the policies %s and %s, want 429 soon", status, again, policy, policy2)
	}
	if out, err := set("level=1", "guards.smtp.rate=0.5"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	worker.Line(t, `"the numbers of a guard change","guard":"smtp","rate":0.5,`)
	if line := worker.Line(t, `"queue is optional at this level, and waits"`); !strings.Contains(line, `"queue":"months"`) {
		t.Errorf("got %s, want the calendar", line)
	}
	for bad, want := range map[string]string{
		"perAddress=-1": "perAddress is -1; want 1 to 1000000", "queues.mail.concurrency=1": `no queue "mail"`, "tables=3": "tables",
		"guards.smtp.rate=0.1": "want at least 0.2",
	} {
		if out, err := set(bad); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: got %v and %s, want %q", bad, err, out, want)
		}
	}
}
