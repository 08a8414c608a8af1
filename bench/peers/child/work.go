package child

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Work is a kind of measurement.
type Work string

// All works. Every rate begins with a warm-up of a third of Spec.For.
const (
	Send1    Work = "send1"    // one sender, for Spec.For
	Send16   Work = "send16"   // sixteen
	Batch    Work = "batch"    // one sender, and many jobs in a call
	Drain    Work = "drain"    // a backlog, until it is handled, for at most 4 × Spec.For; the first tenth is warm-up
	Balanced Work = "balanced" // sixteen senders that pause above 2,000 outstanding jobs, and the handlers
	Latency  Work = "latency"  // one job at a time in an idle system, from the call of Send to the start of the handler, for 6 × Spec.For
	Paced    Work = "paced"    // 500 jobs a second, each sent on time however long the others take, for 2 × Spec.For
	Waiting  Work = "waiting"  // a backlog that nobody handles
	Idle     Work = "idle"     // handlers without jobs, for 6 × Spec.For
	Sync     Work = "sync"     // the disk alone: one 4 KiB overwrite after another
)

// Works are all works in the order of the report.
var Works = []Work{Send1, Send16, Batch, Drain, Balanced, Latency, Paced, Waiting, Idle, Sync}

// Limit is longer than any measurement with these settings.
func (s Spec) Limit() time.Duration { return 2*time.Minute + 20*s.For }

const (
	outstanding = 2000
	batch       = 500 // jobs in one call of Fill
)

type measurement struct {
	c     Client
	spec  Spec
	cause context.CancelCauseFunc
	sent  atomic.Int64 // calls of Send that have begun
	acked atomic.Int64 // calls that have returned
	seen  tally        // handled
}

func measure(ctx context.Context, c Client, spec Spec) (*Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Limit(), errors.New("the measurement didn't end in time"))
	defer cancel()
	m := &measurement{c: c, spec: spec}
	ctx, m.cause = context.WithCancelCause(ctx)
	defer m.cause(nil)
	switch spec.Work {
	case Send1, Sync:
		return m.send(ctx, 1)
	case Send16:
		return m.send(ctx, 16)
	case Batch:
		return m.batches(ctx)
	case Drain:
		return m.drain(ctx)
	case Balanced:
		return m.balanced(ctx)
	case Latency:
		return m.latency(ctx)
	case Paced:
		return m.paced(ctx)
	case Waiting:
		return m.waiting(ctx)
	case Idle:
		return m.idle(ctx)
	}
	return nil, fmt.Errorf("no work %q", spec.Work)
}

// senders send until ctx ends. Before each job they wait for ahead, unless it is nil.
func (m *measurement) senders(ctx context.Context, n int, ahead chan struct{}) {
	for range n {
		go func() {
			for ctx.Err() == nil {
				if ahead != nil {
					select {
					case ahead <- struct{}{}:
					case <-ctx.Done():
						return
					}
				}
				if err := m.c.Send(ctx, NewJob(int(m.sent.Add(1)))); err != nil {
					m.cause(fmt.Errorf("send: %w", err))
					return
				}
				m.acked.Add(1)
			}
		}()
	}
}

func (m *measurement) send(ctx context.Context, n int) (*Sample, error) {
	m.senders(ctx, n, nil)
	return m.window(ctx, func() mark { return mark{m.acked.Load(), time.Now()} })
}

func (m *measurement) batches(ctx context.Context) (*Sample, error) {
	go func() {
		for ctx.Err() == nil {
			jobs := make([]Job, batch)
			for i := range jobs {
				jobs[i] = NewJob(int(m.sent.Add(1)))
			}
			if err := m.c.Fill(ctx, jobs); err != nil {
				m.cause(fmt.Errorf("fill: %w", err))
				return
			}
			m.acked.Add(batch)
		}
	}()
	return m.window(ctx, func() mark { return mark{m.acked.Load(), time.Now()} })
}

func (m *measurement) balanced(ctx context.Context) (*Sample, error) {
	ahead := make(chan struct{}, outstanding)
	err := m.c.Start(ctx, func(j Job) {
		if m.seen.first(j.N) {
			<-ahead
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	m.senders(ctx, 16, ahead)
	return m.window(ctx, m.seen.now)
}

// window counts jobs for Spec.For, after the warm-up.
func (m *measurement) window(ctx context.Context, now func() mark) (*Sample, error) {
	if err := pause(ctx, m.spec.For/3); err != nil {
		return nil, err
	}
	begun, err := m.begin(ctx, now())
	if err != nil {
		return nil, err
	}
	end := begun.mark
	for end.n == begun.n { // a slow system gets more time
		if err := pause(ctx, m.spec.For); err != nil {
			return nil, err
		}
		end = now()
	}
	return m.end(ctx, begun, end)
}

func (m *measurement) drain(ctx context.Context) (*Sample, error) {
	n, err := m.fill(ctx)
	if err != nil {
		return nil, err
	}
	warm, all := m.seen.after(n/10), m.seen.after(n)
	if err := m.c.Start(ctx, func(j Job) { m.seen.first(j.N) }); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	begin, err := either(ctx, warm, m.spec.For/3, m.seen.now)
	if err != nil {
		return nil, err
	}
	begun, err := m.begin(ctx, begin)
	if err != nil {
		return nil, err
	}
	end := begin
	for end.n == begin.n {
		if end, err = either(ctx, all, 4*m.spec.For, m.seen.now); err != nil {
			return nil, err
		}
	}
	return m.end(ctx, begun, end)
}

// fill sends the backlog, or as much of it as possible in ten times Spec.For.
func (m *measurement) fill(ctx context.Context) (n int64, err error) {
	late := time.Now().Add(10 * m.spec.For)
	for int(n) < m.spec.Backlog && (n == 0 || time.Now().Before(late)) {
		jobs := make([]Job, min(batch, m.spec.Backlog-int(n)))
		for i := range jobs {
			n++
			jobs[i] = NewJob(int(n))
		}
		if err := m.c.Fill(ctx, jobs); err != nil {
			return n, fmt.Errorf("fill: %w", err)
		}
	}
	return n, nil
}

func (m *measurement) latency(ctx context.Context) (*Sample, error) {
	handled := make(chan time.Time, 1)
	err := m.c.Start(ctx, func(j Job) {
		now := time.Now()
		if m.seen.first(j.N) {
			handled <- now
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	one := func() (time.Duration, error) {
		began := time.Now()
		if err := m.c.Send(ctx, NewJob(int(m.sent.Add(1)))); err != nil {
			return 0, fmt.Errorf("send: %w", err)
		}
		select {
		case at := <-handled:
			return at.Sub(began), nil
		case <-time.After(time.Minute):
			return 0, errors.New("a job was not handled within a minute")
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	for range 3 { // the warm-up
		if _, err := one(); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, m.spec.For/3); err != nil {
		return nil, err
	}
	var took []float64
	gap := rand.New(rand.NewPCG(m.spec.Seed, 0))
	begun, err := m.begin(ctx, m.seen.now())
	if err != nil {
		return nil, err
	}
	for len(took) == 0 || time.Since(begun.at) < 6*m.spec.For {
		if err := pause(ctx, 60*time.Millisecond+time.Duration(gap.Int64N(int64(240*time.Millisecond)))); err != nil {
			return nil, err
		}
		t, err := one()
		if err != nil {
			return nil, err
		}
		took = append(took, t.Seconds()*1000)
	}
	s, err := m.end(ctx, begun, m.seen.now())
	if err != nil {
		return nil, err
	}
	s.Latencies = took
	return s, nil
}

func (m *measurement) idle(ctx context.Context) (*Sample, error) {
	warm := m.seen.after(1)
	if err := m.c.Start(ctx, func(j Job) { m.seen.first(j.N) }); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := m.c.Send(ctx, NewJob(1)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if _, err := either(ctx, warm, time.Minute, m.seen.now); err != nil {
		return nil, err
	}
	if err := pause(ctx, m.spec.For); err != nil {
		return nil, err
	}
	// One more job lets every handler become used to an idle system.
	warm = m.seen.after(2)
	if err := m.c.Send(ctx, NewJob(2)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if _, err := either(ctx, warm, time.Minute, m.seen.now); err != nil {
		return nil, err
	}
	if err := pause(ctx, m.spec.For); err != nil {
		return nil, err
	}
	begun, err := m.begin(ctx, m.seen.now())
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, 6*m.spec.For); err != nil {
		return nil, err
	}
	return m.end(ctx, begun, m.seen.now())
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// either waits for a mark, but at most d.
func either(ctx context.Context, reached <-chan mark, d time.Duration, now func() mark) (mark, error) {
	select {
	case at := <-reached:
		return at, nil
	case <-time.After(d):
		select {
		case at := <-reached:
			return at, nil
		default:
			return now(), nil
		}
	case <-ctx.Done():
		return mark{}, context.Cause(ctx)
	}
}
