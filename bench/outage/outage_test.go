package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain lets the test's binary be a child, as main does.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		os.Exit(beChild(text, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A brief run counts all jobs of a system, and leaves nothing behind. The program of a server that isn't there is
// skipped.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("PATH", "") // where redis-server would be
	file := filepath.Join(t.TempDir(), "outage.json")
	var table, log strings.Builder
	args := []string{"-systems", "millrace,millrace-plain,asynq", "-for", "4s", "-rate", "50", "-limit", "2m", "-json", file}
	if code := run(t.Context(), args, &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	var r Report
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Samples) != 2 {
		t.Fatalf("%d samples, want 2 (%v)\n%s", len(r.Samples), err, log.String())
	}
	for _, s := range r.Samples {
		if s.Err != "" || s.Sent == 0 || s.CallsAway == 0 || s.First < 0 || s.Gone < s.First || s.Left != 0 || s.Dead != 0 || s.Twice != 0 {
			t.Errorf("got %+v, want all jobs done once, and some calls while the service was away", s)
		}
		if !strings.Contains(table.String(), "| "+r.title(s.System)+" |") {
			t.Errorf("no row of %s", s.System)
		}
	}
	if !strings.Contains(table.String(), "\nSKIPPED asynq: ") {
		t.Errorf("the report doesn't tell that Asynq was skipped\n%s", table.String())
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func (r *Report) title(system string) string {
	for _, s := range r.Systems {
		if s.Name == system {
			return s.Title
		}
	}
	return ""
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-systems nobody":      `no system "nobody"`,
		"-systems river asynq": `"asynq" is no flag`,
		"-for 0s":              "want positive times",
		"-rate 0.5":            "want positive times",
		"-rate NaN":            "want positive times",
		"-limit -1s":           "want positive times",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, %q; want 2, and %q", args, code, errs.String(), want)
		}
	}
}

// The service answers by whether it is away, and its book tells what became of which job.
func TestBook(t *testing.T) {
	t.Parallel()
	s, err := serve([]System{{Name: "one"}, {Name: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	do, client := call(s.url+"/one/"), newClient(newTransport())
	defer client.CloseIdleConnections()
	fails := func(want bool, jobs ...int) {
		t.Helper()
		for _, job := range jobs {
			if err := do(t.Context(), client, job); (err != nil) != want {
				t.Errorf("job %d: got %v, want an error: %v", job, err, want)
			}
		}
	}
	b := s.books["one"]
	fails(false, 1, 2)
	b.leave()
	fails(true, 3, 3, 4)
	b.comeBack(5, time.Now())
	if f := b.figures(0); f.First != -1 || f.Gone != -1 || f.Left != 3 {
		t.Errorf("before any job is done again: got %+v, want 3 left, and no times", f)
	}
	fails(false, 7, 4, 5, 5)
	f := b.figures(0)
	if f.First < 0 || f.Gone != -1 || f.Left != 1 || f.Twice != 1 || f.Sent != 5 || f.CallsAway != 3 {
		t.Errorf("got %+v, want one left of 5, one done twice, 3 calls while it was away", f)
	}
	if f = b.figures(1); f.Left != 0 || f.Gone < f.First || f.Dead != 1 {
		t.Errorf("with one dead: got %+v, want none left", f)
	}
	if n := b.undone(7); n != 2 {
		t.Errorf("%d of 7 jobs aren't done, want 2", n)
	}
	if other := s.books["other"].figures(0); other.CallsAway != 0 || other.Twice != 0 {
		t.Errorf("another system has %+v, want nothing", other)
	}
	answer := httptest.NewRecorder()
	s.server.Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/one/x", nil))
	if answer.Code != http.StatusBadRequest {
		t.Errorf("a job without a number is answered %d", answer.Code)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := &Report{
		Machine: "a machine", Away: time.Minute, Limit: time.Hour, Rate: 100, Loads: []string{"1", "2"}, Stolen: 0.5,
		Systems:  []System{{Name: "a", Title: "A", Settings: "all", Retries: "none"}, {Name: "b", Title: "B"}, {Name: "c", Title: "C"}, {Name: "d", Title: "D"}},
		Versions: map[string]string{"a": "v1"}, Skipped: map[string]string{"d": "not installed"},
		Samples: []Sample{
			{System: "b", Figures: Figures{Sent: 6000, CallsAway: 12345, First: 0.5, Gone: -1, Left: 1234}},
			{System: "a", Figures: Figures{Sent: 6001, Dead: 7, CallsAway: 40, First: -1, Gone: 12.34, Twice: 3}},
			{System: "c", Err: "broken"},
		},
	}
	text := r.markdown()
	rows := "| A | 6,001 | 7 | 40 | – | 12.3 | 3 |\n| B | 6,000 | 0 | 12,345 | 0.500 | not within 1h0m0s: 1,234 are left | 0 |\n\n"
	for _, want := range []string{"503 for 1m0s while 100 jobs", "1 and 2 before and after", "others 50.0 %", rows, "| A | v1 | all | none |\n", "\nSKIPPED d: not installed\n", "\nFAILED c: broken\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the report: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// stub is a system whose sending takes a second, and may fail.
type stub struct {
	mu   sync.Mutex
	jobs []int
	bad  int // this job fails
}

func (s *stub) Send(_ context.Context, job int) error {
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if job == s.bad {
		return errors.New("full")
	}
	s.jobs = append(s.jobs, job)
	return nil
}

func (*stub) Start(context.Context, doFunc) error { return nil }

func (*stub) Dead(context.Context) (int, error) { return 0, nil }

// Jobs are sent at their rate, even if each takes longer than the time between two.
func TestSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &stub{}
		s := newSender(c, 5)
		s.begin(t.Context())
		time.Sleep(10*time.Second + time.Millisecond)
		s.cease()
		if n := s.sent.Load(); n != 50 || len(c.jobs) != 50 {
			t.Errorf("%d jobs are marked as sent, and %d were, want 50", n, len(c.jobs))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSender(&stub{bad: 3}, 5)
		s.begin(t.Context())
		if err := <-s.failed; err == nil || !strings.Contains(err.Error(), "job 3: full") {
			t.Errorf("got %v, want the failure of job 3", err)
		}
		s.cease()
	})
}
