package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/faults"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// guardFindings are about services that are away, and about the queues that wait for them.
func guardFindings(ctx context.Context, desk *act.Desk, q queued, lag time.Duration) (all []Finding, err error) {
	found, err := guard.Outages(ctx, desk.Store)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		f := Finding{Severity: Wrong, Check: "guards", About: s.Name, Text: fmt.Sprintf("the service of guard %s is away for all processes", s.Name),
			Fix: "Ask those who run the service; calls go on by themselves once it answers. Queues wait for it, and lose nothing."}
		if s.Asks {
			f.Severity, f.Text = Note, fmt.Sprintf("the service of guard %s asks all processes to wait", s.Name)
			f.Fix = "Queues wait for it, and lose nothing. Then one call asks whether all may go on, if a worker runs. A Rate keeps below what the service allows."
		}
		if s.Damaged {
			f.Text = fmt.Sprintf("the document of guard %s is damaged", s.Name)
			f.Fix = "The next process that looks replaces it, and one call asks whether the service is there."
		}
		if !s.All {
			f.Severity, f.Text = Note, fmt.Sprintf("some processes can't reach the service of guard %s, and others can", s.Name)
			f.Fix = "The metric millrace_guard_alone is 1 in those that can't: look at their network."
		}
		show := act.Hint{Act: "guards show", Args: []string{s.Name}, Means: "which queues wait, and what the service answered"}
		if s.Why != "" && ownWords(desk, s) == "" { // what it answered is the program's text
			show.Open = "--reveal --why TEXT"
		}
		f = f.mended(desk, "%s%s %s tells what waits. %s lets calls go on at once: for a service that is known to be back, or a guard that no program has any more.", f.Fix, ownWords(desk, s),
			show, act.Hint{Act: "guards close", Args: []string{s.Name}, Means: "calls go on at once, before the service has answered: it is known to be back, or no program has the guard any more"})
		if !s.Since.IsZero() {
			f.Text += fmt.Sprintf(", since %s (%s)", act.Clock(s.Since), act.Ago(s.Since))
		}
		if s.All || s.Damaged {
			f = f.waitedFor(desk, q, lag)
		}
		all = append(all, f)
	}
	damaged, err := limit.Damaged(ctx, desk.Store)
	for _, name := range damaged {
		all = append(all, Finding{Severity: Note, Check: "guards", About: "limit " + name, Text: fmt.Sprintf("the document of limit %s can't be read, so no process can join those that share it", name),
			Fix: "Nothing, if a process runs that has the limit: it replaces the document within 70 seconds."})
	}
	return all, err
}

// ownWords tells why a service is away, where the framework alone has said why. Other words are the program's.
func ownWords(desk *act.Desk, s guard.Status) string {
	own, rest := faults.Split(s.Why, func(name string) bool { return name == s.Name || desk.Known.Names(name) })
	if own == "" || rest != "" {
		return ""
	}
	return fmt.Sprintf(" The service's last answer: %s.", own)
}

// waitedFor says which queues wait for the service of a guard, as far as programs have published that.
func (f Finding) waitedFor(desk *act.Desk, q queued, lag time.Duration) Finding {
	var waiting []string
	for i, name := range q.names {
		if desk.Known.Guard(name) != f.About {
			continue
		}
		f.Waits = append(f.Waits, name)
		if st := q.stats[i]; st.Ready > 0 {
			waiting = append(waiting, look.Waiting(st.Ready)+" in queue "+name)
			if st.Oldest > lag {
				f.Severity = Wrong
			}
		}
	}
	if len(waiting) > 0 {
		f.Text += ". Therefore " + strings.Join(waiting, ", and ")
	}
	return f
}
