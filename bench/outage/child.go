package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/bench/children"
	"github.com/millrace-go/millrace/guard"
)

// childVar makes this program a child process: one system, which sends jobs and handles them. It stops at the end of its
// standard input.
const childVar = "MILLRACE_OUTAGE_CHILD"

// These are the words of a parent to a child.
const (
	begin = "begin" // to send
	mark  = "mark"  // how many are sent now; it answers at once, and counts no dead ones
	count = "count" // what there is
	cease = "cease" // sending
)

// A spec says what a child runs.
type spec struct {
	System string  `json:"system"`
	Place  string  `json:"place"` // an empty folder, or the server's socket or URL
	URL    string  `json:"url"`   // of the service, to which a job's number is added
	Rate   float64 `json:"rate"`  // of jobs, per second
}

// A saying is a child's answer to each line.
type saying struct {
	Sent int    `json:"sent"` // all jobs up to this number
	Dead int    `json:"dead"` // jobs that the system has given up
	Err  string `json:"err,omitempty"`
}

// A contestant is a system, open in a place of its own. It runs with the defaults of its documentation.
type contestant interface {
	// Send sends a job, and returns when the system reports it as safe. It is called concurrently.
	Send(ctx context.Context, job int) error

	// Start starts the handling of jobs, until ctx ends. A job that fails comes again when the system says so.
	Start(ctx context.Context, do doFunc) error

	// Dead returns how many jobs the system has given up.
	Dead(ctx context.Context) (int, error)
}

// A doFunc does a job: it makes one call.
type doFunc func(ctx context.Context, client *http.Client, job int) error

// call returns the function that does jobs by a service. An answer of 400 or above is an error for all.
func call(url string) doFunc {
	return func(ctx context.Context, client *http.Client, job int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+strconv.Itoa(job), nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
		return guard.CheckStatus(answer)
	}
}

// newClient returns the client of a child's calls.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// newTransport has room for as many idle connections as a system has handlers.
func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: time.Minute}
}

// beChild is the main function of a child.
func beChild(text string, in io.Reader, out, errs io.Writer) int {
	ctx, t, err := children.Begin[spec, saying](text, in, out)
	if err != nil {
		_, _ = fmt.Fprintln(errs, "outage:", err)
		return 1
	}
	if err := talk(ctx, t); err != nil && ctx.Err() == nil {
		t.Say(saying{Err: err.Error()})
		return 1
	}
	return 0
}

// talk opens a system, and does what the parent says.
func talk(ctx context.Context, t children.Talk[spec, saying]) error {
	all := systems()
	i := slices.IndexFunc(all, func(s System) bool { return s.Name == t.Spec.System })
	if i < 0 {
		return fmt.Errorf("no system %q", t.Spec.System)
	}
	c, err := all[i].open(ctx, t.Spec.Place)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := c.Start(ctx, call(t.Spec.URL)); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	s := newSender(c, t.Spec.Rate)
	for {
		select {
		case line, ok := <-t.Lines:
			switch {
			case !ok:
				return nil
			case line == begin:
				s.begin(ctx)
			case line == cease:
				s.cease()
			}
			dead := 0
			if line != mark {
				if dead, err = c.Dead(ctx); err != nil {
					return fmt.Errorf("count dead jobs: %w", err)
				}
			}
			t.Say(saying{Sent: int(s.sent.Load()), Dead: dead})
		case err := <-s.failed:
			return fmt.Errorf("send: %w", err)
		}
	}
}

// sender sends jobs at a rate: the nth when its time has come, however long others take.
type sender struct {
	c      contestant
	rate   float64
	sent   atomic.Int64 // the number of the newest
	stop   context.CancelFunc
	all    sync.WaitGroup
	failed chan error
}

// senders is how many jobs are sent at a time at most.
const senders = 8

func newSender(c contestant, rate float64) *sender {
	return &sender{c: c, rate: rate, stop: func() {}, failed: make(chan error, senders)}
}

func (s *sender) begin(ctx context.Context) {
	going, stop := context.WithCancel(ctx)
	s.stop = stop
	from := time.Now()
	turn := make(chan int) // the jobs whose time has come
	s.all.Go(func() {
		defer close(turn)
		for n := 1; ; n++ {
			select {
			case <-time.After(time.Until(from.Add(time.Duration(float64(n) / s.rate * float64(time.Second))))):
			case <-going.Done():
				return
			}
			s.sent.Store(int64(n))
			turn <- n
		}
	})
	for range senders {
		s.all.Go(func() {
			for n := range turn {
				if err := s.c.Send(ctx, n); err != nil && ctx.Err() == nil {
					s.failed <- fmt.Errorf("job %d: %w", n, err)
					for range turn { // so that the others end
					}
					return
				}
			}
		})
	}
}

// cease returns when all jobs up to sent are safe.
func (s *sender) cease() {
	s.stop()
	s.all.Wait()
}

// encode is a job's content for systems that take bytes.
func encode(job int) ([]byte, error) { return json.Marshal(job) }

// decode reads it.
func decode(body []byte) (job int, err error) {
	err = json.Unmarshal(body, &job)
	return job, err
}
