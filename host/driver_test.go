package host_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
)

// A driver that this module doesn't know serves a program, its operator, and the help. The error of the driver says on
// /readyz what it wants to say to everybody.
func TestDriverOfAStranger(t *testing.T) {
	t.Parallel()
	m := boottest.NewModule(t, "example.com/stranger")
	m.Copy(t, "host/testdata/stranger", ".", false, strings.NewReplacer())
	m.Go(t, "build", "-o", "shop", ".")
	bin := filepath.Join(m.Dir, "shop")
	p := boottest.Start(t, bin, m.Dir, nil, "-addr", "127.0.0.1:0", "-store", "shelf:books")
	url := p.URL(t)
	if code, body := send(t, http.MethodPost, url, `{"id":"moby-dick"}`); code != http.StatusAccepted {
		t.Errorf("got %d %s, want 202", code, body)
	}
	p.Line(t, "lent moby-dick")
	operate := func(want string, code int, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Dir = m.Dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
			t.Errorf("%v: got exit code %d and\n%s\nwant %d and %q", args, got, out, code, want)
		}
	}
	operate("lends", 0, "queues", "list", "-store", "shelf:books")
	operate("does not exist", 1, "queues", "list", "-store", "shelf:boks")
	operate("want one like shelf:data", 2, "queues", "list", "-store", "shelf:")
	operate("want one of shelf:…, sqlite:…", 2, "-store", "other:x")
	operate("Add storage/redis.Driver", 2, "-store", "rediss://host")
	operate("Add storage/azure.Driver", 2, "-store", "azure://acct")
	operate("shelf:FOLDER is a folder that can be locked.", 0, "-help")
	if err := os.WriteFile(filepath.Join(m.Dir, "books", "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := boottest.Get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "the shelf is locked") || strings.Contains(body, "shelf books") {
		t.Errorf("got %d %s; want 503 and the error's public text alone", code, body)
	}
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)
}
