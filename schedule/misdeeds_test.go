package schedule_test

import (
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/worker"
)

// A Sheet is a command whose methods misbehave.
type Sheet struct {
	Text string `json:"text"`
}

// Kind is another one where the text says so.
func (s *Sheet) Kind() channel.Kind {
	if s != nil && s.Text == "kind" {
		return "test.other.v1"
	}
	return "test.sheet.v1"
}

// MessageID is bad where the text says so.
func (s *Sheet) MessageID() string {
	if s.Text == "id" {
		return "a\x00b"
	}
	return ""
}

// Check refuses, and panics, where the text says so.
func (s *Sheet) Check() error {
	switch s.Text {
	case "check":
		return errors.New("no paper")
	case "check panics":
		panic("in the check")
	}
	return nil
}

// A function that panics, ends its goroutine, hangs, or returns a command that can't be sent fails its own run alone:
// the run is noted with the error, and the schedule goes on in time.
func TestMisdeedsOfTheFunction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		command    func() *Sheet
	}{
		{"panics", "panic: ouch", func() *Sheet { panic("ouch") }},
		{"ends", "runtime.Goexit", func() *Sheet { runtime.Goexit(); return nil }},
		{"nil", "returns nil", func() *Sheet { return nil }},
		{"refused", "no paper", func() *Sheet { return &Sheet{"check"} }},
		{"check panics", "in the check", func() *Sheet { return &Sheet{"check panics"} }},
		{"bad ID", "control characters", func() *Sheet { return &Sheet{"id"} }},
		{"another kind", "test.other.v1", func() *Sheet { return &Sheet{"kind"} }},
		{"not UTF-8", "UTF-8", func() *Sheet { return &Sheet{"\xff"} }},
		{"too large", "at most", func() *Sheet { return &Sheet{strings.Repeat("x", channel.MaxData)} }},
		{"hangs", "hangs: it was given up after 5s", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, l *lab) {
				end := make(chan struct{})
				defer close(end)
				command := c.command
				if command == nil {
					command = func() *Sheet { <-end; return nil }
				}
				w := worldtest.NewBare(t, l.store, handlers.Config{Logger: slog.New(l.log), Timeout: time.Second}, schedule.Route(), channel.Command[*Sheet]("sheets"))
				var mu sync.Mutex
				var dues []time.Time // under mu
				metrics := prometheus.NewRegistry()
				schedule.Every(w.Registry, "it", schedule.Interval(time.Hour), func(tick schedule.Tick) *Sheet {
					mu.Lock()
					dues = append(dues, time.Now().UTC())
					mu.Unlock()
					if tick.Due.Hour() == 2 {
						return command()
					}
					return &Sheet{"fine"}
				}, schedule.Config{Overlap: schedule.Queue, Longest: time.Minute, Metrics: metrics})
				handlers.React(w.Registry, "sheets", nothing[*Sheet])
				stop := w.Start(worker.Config{Queues: map[string]worker.QueueConfig{"sheets": {PollInterval: 24 * time.Hour}, "schedules": {PollInterval: 24 * time.Hour}}})
				l.until(0, "03:30:00")
				runs := l.info("it").Runs
				if len(runs) != 3 || runs[0].Sent.IsZero() || !runs[1].Sent.IsZero() || !strings.Contains(runs[1].Failed, c.want) || runs[2].Sent.IsZero() {
					t.Errorf("got runs %+v, want the second one failed with %q", runs, c.want)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(dues) != 3 || !dues[2].Equal(l.began.UTC().Add(3*time.Hour)) {
					t.Errorf("the function was called at %v, want each hour once", dues)
				}
				if n := l.log.Count("ERROR", "could not make its command", "schedule=it", c.want); n != 1 {
					t.Errorf("got %d lines about it, want one: %v", n, l.log)
				}
				worldtest.Want(t, "sent", counted(t, metrics, "sent"), 2)
				worldtest.Want(t, "failed", counted(t, metrics, "failed"), 1)
				l.wantNoPoison()
				worldtest.WantErr(t, stop(), nil)
			})
		})
	}
}
