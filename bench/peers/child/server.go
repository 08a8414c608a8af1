package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pace is the time between two jobs of Paced.
const pace = 2 * time.Millisecond

// paced sends jobs on time, in a goroutine each, so that a slow system can't slow down its senders.
func (m *measurement) paced(ctx context.Context) (*Sample, error) {
	warm, count := int(m.spec.For/3/pace), max(int(2*m.spec.For/pace), 1)
	began, handled := make([]time.Time, warm+count+1), make([]time.Time, warm+count+1)
	all := m.seen.after(int64(warm + count))
	err := m.c.Start(ctx, func(j Job) {
		handled[j.N] = time.Now()
		m.seen.first(j.N)
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	var b begun
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 1; n <= warm+count; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if n == warm+1 {
			if b, err = m.begin(ctx, m.seen.now()); err != nil {
				return nil, err
			}
		}
		began[n] = time.Now()
		go func() {
			if err := m.c.Send(ctx, NewJob(n)); err != nil {
				m.cause(fmt.Errorf("send: %w", err))
			}
		}()
	}
	if end, err := either(ctx, all, time.Minute, m.seen.now); err != nil {
		return nil, err
	} else if end.n < int64(warm+count) {
		return nil, errors.New("a job was not handled within a minute")
	}
	s, err := m.end(ctx, b, m.seen.now())
	if err != nil {
		return nil, err
	}
	for n := warm + 1; n <= warm+count; n++ {
		s.Latencies = append(s.Latencies, handled[n].Sub(began[n]).Seconds()*1000)
	}
	return s, nil
}

// waiting measures the server's memory before and after a backlog was sent.
func (m *measurement) waiting(ctx context.Context) (*Sample, error) {
	sized, ok := m.c.(Sized)
	if !ok {
		return nil, errors.New("the system tells no memory")
	}
	if err := m.c.Fill(ctx, []Job{NewJob(1)}); err != nil { // a queue itself takes some memory
		return nil, fmt.Errorf("fill: %w", err)
	}
	before, err := sized.Memory(ctx)
	if err != nil {
		return nil, err
	}
	b, err := m.begin(ctx, mark{0, time.Now()})
	if err != nil {
		return nil, err
	}
	n, err := m.fill(ctx)
	if err != nil {
		return nil, err
	}
	after, err := sized.Memory(ctx)
	if err != nil {
		return nil, err
	}
	s, err := m.end(ctx, b, mark{n, time.Now()})
	if err == nil {
		s.Memory = after - before
	}
	return s, err
}
