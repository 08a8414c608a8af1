package main

import (
	"context"
	"fmt"
	"time"
)

const killedSteps = 100 // of an instance whose process is killed after some of them

// begin is the child that begins an instance whose steps take a while, and says when each step begins.
func (s spec) begin(ctx context.Context, say func(saying)) error {
	c, err := s.system().open(ctx, s.Place, slowly(ctx, say))
	if err != nil {
		return err
	}
	return c.Sequence(ctx, 1, killedSteps, 1)
}

// resume is the child that goes on with what a dead process left, and says when each step begins.
func (s spec) resume(ctx context.Context, say func(saying)) error {
	system := s.system()
	open := system.reopen
	if open == nil {
		open = system.open
	}
	c, err := open(ctx, s.Place, slowly(ctx, say))
	if err != nil {
		return err
	}
	<-ctx.Done()
	return c.Close()
}

func slowly(ctx context.Context, say func(saying)) stepFunc {
	return func(_ string, step int) {
		say(saying{Step: step, At: time.Now().UnixNano()})
		pause(ctx, stepTime)
	}
}

// recovery kills a process at a random time during an instance, and measures how soon a process that is started at
// once begins the next step.
func recovery(ctx context.Context, r *round, s spec) (values []float64, err error) {
	s.Role = "begins"
	first, err := start(s, r.errs)
	if err != nil {
		return nil, err
	}
	last := saying{Step: -1}
	for last.Step < 4 && err == nil {
		last, err = first.listen(ctx)
	}
	pause(ctx, time.Duration(r.rand.Int64N(int64(2*stepTime))))
	killed := time.Now()
	first.Kill()
	for x := range first.Lines {
		last = x
	}
	_ = first.end() // it was killed
	if err != nil {
		return nil, err
	}
	s.Role = "resumes"
	second, err := start(s, r.errs)
	if err != nil {
		return nil, err
	}
	next, err := second.listen(ctx)
	second.Kill()
	_ = second.end() // likewise
	if err == nil {
		err = checkNext(last, next)
	}
	if err != nil {
		return nil, err
	}
	return []float64{time.Duration(next.At - killed.UnixNano()).Seconds()}, nil
}

// checkNext checks the first step after the kill. The store may not know that the last step before it has ended, but
// it knows that those before that one have.
func checkNext(last, next saying) error {
	if next.Step < last.Step {
		return fmt.Errorf("step %d ran again although step %d had begun", next.Step, last.Step)
	}
	return nil
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
