package acts

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
)

// A doctorInput is what doctor takes.
type doctorInput struct{ lag time.Duration }

func doctorActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "doctor", About: "find out what is wrong", Role: act.Viewer,
		More: "It looks for queues that nobody consumes, kinds without a handler, messages that wait for long, poison queues, schedules that " +
			"don't run, processes that are stuck or overdue, messages that stay in a web's spool, clocks that differ, old versions of a program " +
			"beside newer ones, a log of SQLite that can't shrink, and a process that keeps others from writing to it. It changes nothing. Its exit " +
			"code is 4 if something is wrong, and 3 if it knows no queue. A NOTE alone is not wrong.",
	}, func(in *doctorInput) []act.Field {
		in.lag = doctor.Lag
		return []act.Field{act.Duration(&in.lag, "lag", "the `TIME` that messages may wait", 1, act.MaxAhead)}
	}, tellFindings)}
}

// tellFindings tells what is wrong, and what to do about it.
func tellFindings(ctx context.Context, c *act.Call, in *doctorInput) error {
	all, fault := doctor.Examine(ctx, c.Desk, in.lag)
	bad := 0
	for _, f := range all {
		if f.Severity == doctor.Wrong {
			bad++
		}
		if err := c.Say(f, "%-5s  %s\n       %s", strings.ToUpper(f.Severity), f.Text, f.Fix); err != nil {
			return err
		}
	}
	var err error
	switch {
	case fault != nil:
		return fault
	case bad == 0 && len(c.Known.Queues) == 0:
		return act.Nothing("doctor: no queue is known in this store, so nothing says that all is well")
	case bad == 0:
		return c.Say(nil, "Nothing is wrong.")
	case bad == 1:
		err = c.Say(nil, "\n1 thing is wrong.")
	default:
		err = c.Say(nil, "\n%d things are wrong.", bad)
	}
	return errors.Join(err, act.ErrWrong)
}
