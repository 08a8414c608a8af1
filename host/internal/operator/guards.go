package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/share"
	"github.com/millrace-go/millrace/guard"
)

// guardFindings are about services that are away.
func (c examination) guardFindings(ctx context.Context) (all []finding, err error) {
	found, err := guard.Outages(ctx, c.store)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		f := finding{Severity: wrong, Check: "guards", Text: fmt.Sprintf("the service of guard %s is away for all processes", s.Name),
			Fix: "Queues wait for it, and lose nothing. One call after another asks whether it is back, if a worker runs. Does the service work for others?"}
		if s.Damaged {
			f.Text = fmt.Sprintf("the document of guard %s is damaged", s.Name)
			f.Fix = "The next process that looks replaces it, and one call asks whether the service is there. If none with the guard runs, nothing waits for it."
		}
		if !s.All {
			f.Severity, f.Text = note, fmt.Sprintf("some processes can't reach the service of guard %s, and others can", s.Name)
			f.Fix = "The metric millrace_guard_alone is 1 in those that can't: look at their network."
		}
		if !s.Since.IsZero() {
			f.Text += fmt.Sprintf(", since %s (%s ago)", clock(s.Since), age(time.Since(s.Since)))
		}
		if s.Why != "" {
			f.Text += ": " + s.Why
		}
		all = append(all, f)
	}
	damaged, err := share.Damaged(ctx, c.store)
	for _, name := range damaged {
		all = append(all, finding{Severity: note, Check: "guards", Text: fmt.Sprintf("the document of limit %s can't be read, so no process can join those that share it", name),
			Fix: "Nothing, if a process runs that has the limit: it replaces the document within 70 seconds."})
	}
	return all, err
}
