package child

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a system without a store. It can fail and repeat jobs on demand.
type memory struct {
	jobs   chan Job
	each   time.Duration // time for a job
	fill   time.Duration // time for a batch
	send   error
	start  error
	repeat bool
	calls  int64

	parallel int // handlers
}

func newMemory() *memory {
	return &memory{jobs: make(chan Job, 100_000), each: time.Millisecond, parallel: 1}
}

func (m *memory) Send(ctx context.Context, j Job) error {
	if err := pause(ctx, m.each); err != nil {
		return err
	}
	m.jobs <- j
	return m.send
}

func (m *memory) Fill(ctx context.Context, jobs []Job) error {
	if err := pause(ctx, m.fill); err != nil {
		return err
	}
	for _, j := range jobs {
		m.jobs <- j
	}
	return m.send
}

func (m *memory) Start(ctx context.Context, handle func(Job)) error {
	for range m.parallel {
		go func() {
			for pause(ctx, m.each) == nil {
				select {
				case j := <-m.jobs:
					handle(j)
					if m.repeat {
						handle(j)
					}
				case <-ctx.Done():
				}
			}
		}()
	}
	return m.start
}

func (m *memory) Memory(context.Context) (int64, error) { return int64(100 * len(m.jobs)), nil }

func (m *memory) Operations(context.Context) (int64, error) { m.calls += 10; return m.calls, nil }

func TestWorks(t *testing.T) {
	for _, c := range []struct {
		work    Work
		n       int64
		seconds float64
	}{
		{Send1, 3000, 3}, {Send16, 48000, 3}, {Batch, 15000, 3}, {Balanced, 3000, 3}, {Drain, 900, 0.9}, {Latency, 0, 0}, {Idle, 0, 18}, {Sync, 3000, 3},
	} {
		t.Run(string(c.work), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.repeat = c.work == Drain
				if c.work == Batch {
					m.fill = 99 * time.Millisecond // the window ends in the middle of a batch
				}
				s, err := measure(t.Context(), m, Spec{Work: c.work, For: 3 * time.Second, Backlog: 1000})
				if err != nil {
					t.Fatal(err)
				}
				if s.Operations != 10 {
					t.Errorf("%d operations, want 10", s.Operations)
				}
				if c.work == Latency {
					if n := int64(len(s.Latencies)); n < 18_000/300 || n > 18_000/60 || n != s.N {
						t.Errorf("%d latencies of %d jobs", n, s.N)
					}
					for _, l := range s.Latencies {
						if l < 1 || l > 2 {
							t.Errorf("latency %v ms", l)
						}
					}
					return
				}
				if s.N < c.n-20 || s.N > c.n+20 || s.Seconds != c.seconds {
					t.Errorf("%d in %v s, want %d in %v s", s.N, s.Seconds, c.n, c.seconds)
				}
				if m.repeat && s.Twice < 990 {
					t.Errorf("%d repeats were seen", s.Twice)
				}
			})
		})
	}
}

// Jobs are sent on time however long a call takes, and the time that a call takes counts.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.each = 20 * time.Millisecond
		m.parallel = 100
		s, err := measure(t.Context(), m, Spec{Work: Paced, For: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Latencies) != 3000 || s.Seconds < 5.99 || s.Seconds > 6.1 {
			t.Errorf("%d latencies in %v s, want 3000 in 6 s", len(s.Latencies), s.Seconds)
		}
		for _, l := range s.Latencies {
			if l < 20 || l > 45 {
				t.Errorf("latency %v ms", l)
			}
		}
	})
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := measure(t.Context(), newMemory(), Spec{Work: Waiting, For: 3 * time.Second, Backlog: 1234})
		if err != nil || s.N != 1234 || s.Memory != 123_400 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestASlowDrainIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.each = 100 * time.Millisecond
		s, err := measure(t.Context(), m, Spec{Work: Drain, For: 3 * time.Second, Backlog: 100_000})
		if err != nil || s.Seconds != 12 || s.N < 119 || s.N > 121 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestWhatHandlesNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.each = time.Hour
		if s, err := measure(t.Context(), m, Spec{Work: Drain, For: time.Second, Backlog: 10}); err == nil {
			t.Errorf("measured %+v", s)
		}
	})
}

func TestErrorsOfAClientAreTold(t *testing.T) {
	no := errors.New("no")
	for _, w := range []Work{Send1, Drain, Balanced, Latency, Idle} {
		for _, m := range []*memory{{send: no}, {start: no}} {
			if w == Send1 && m.start != nil {
				continue
			}
			m.jobs = make(chan Job, 1000)
			if _, err := measure(t.Context(), m, Spec{Work: w, For: time.Hour, Backlog: 10}); !errors.Is(err, no) {
				t.Errorf("%s: %v", w, err)
			}
		}
	}
}

func TestServe(t *testing.T) {
	systems := []System{{Name: "memory", Open: func(context.Context, Spec) (Client, error) { return newMemory(), nil }}}
	ask := func(question string, end error) (string, error) {
		in, write := io.Pipe()
		go func() {
			_, _ = io.WriteString(write, question+"\n")
			if end != nil {
				_ = write.CloseWithError(end)
			}
		}()
		defer func() { _ = in.Close() }()
		var out strings.Builder
		err := serve(t.Context(), systems, in, &out)
		return out.String(), err
	}
	answer, err := ask(`{"system":"memory","work":"drain","backlog":20,"for":1000000000}`, nil)
	var s Sample
	if err == nil {
		err = json.Unmarshal([]byte(answer), &s)
	}
	if err != nil || s.System != "memory" || s.Work != Drain || s.N != 18 || strings.Count(answer, "\n") != 1 {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := ask(`{"system":"memory","work":"idle","for":1000000000000}`, io.EOF); !errors.Is(err, errOrphan) {
		t.Errorf("without a parent: %v", err)
	}
	for _, question := range []string{`{"system":"other"}`, `{"system":"memory","work":"other"}`, `{`} {
		if answer, err := ask(question, nil); err == nil {
			t.Errorf("%s: %q", question, answer)
		}
	}
}
