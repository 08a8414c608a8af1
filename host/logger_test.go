package host_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/views"
)

// A view of the web logs to the program's log what it can't tell its client, although nobody has given it a logger.
func TestAViewLogsToTheProgramsLog(t *testing.T) {
	t.Parallel()
	p := shop()
	p.Web = func(a *host.App) (http.Handler, error) {
		unfit := func(string, int) any { return make(chan int) } // JSON can't have it
		return views.New(a.Channels, "seats", views.Config[int]{}).Handler(func(*http.Request) string { return "today" }, unfit), nil
	}
	r := start(t, p, "web", "-addr=127.0.0.1:0")
	line := r.line(t, "Serving at")
	res, err := http.Get(line[strings.Index(line, "http://"):])
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	worldtest.Want(t, "status", res.StatusCode, http.StatusInternalServerError)
	r.line(t, `"a view can't be encoded","route":"/","view":"seats"`)
	worldtest.Want(t, "exit code", r.end(), host.ExitOK)
}
